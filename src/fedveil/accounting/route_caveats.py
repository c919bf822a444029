"""What a route to a guarantee rests on, in words: one typed caveat for each condition of its rule."""

from __future__ import annotations

from fedveil.core.guarantee import Caveat, CaveatKind

HIDDEN_DRAW = Caveat(
    CaveatKind.HIDDEN_DRAW,
    "who takes part is decided by a draw that this view never sees; ε holds over that draw, and not for a client known"
    " to have been drawn",
)
MEAN_OF_DRAWS = Caveat(
    CaveatKind.MEAN_OF_DRAWS,
    "who takes part is left to a draw from which nobody is left out by a budget; it may be seen, ε is averaged over it,"
    " and not for a client known to have been drawn",
)
_PEER_SEES = "a peer sees some of the released models"
PEER_BOUNDED = Caveat(CaveatKind.PEER, f"{_PEER_SEES}, so the released row bounds it")
PEER_SIZED = Caveat(CaveatKind.PEER, f"{_PEER_SEES}, and knows when the whole cohort was drawn from the others")
PEER_SUMMED = Caveat(CaveatKind.PEER, f"{PEER_SIZED.text}, and what noise it added itself")
PEER_MIXED = Caveat(CaveatKind.PEER, "a peer starts from a mixture of the others' models, so the server row bounds it")
OTHERS_NOISE = Caveat(
    CaveatKind.OTHERS_NOISE,
    "counts on the noise of the other clients in the cohort, who must add theirs and keep it to themselves",
)
ANSWERS = Caveat(
    CaveatKind.ANSWERS,
    "some of a cohort may not answer; whether and when a client does must not depend on its records",
)
PLAIN_SUM = Caveat(
    CaveatKind.PLAIN_SUM,
    "counts on nothing being seen but the plain sum of one local step's noisy gradients of the whole cohort",
)
FULL_COHORTS = Caveat(
    CaveatKind.FULL_COHORTS, "counts on full cohorts: a round for which fewer clients may be drawn does not run"
)
LEAKED_BOUND = Caveat(
    CaveatKind.LEAKED_BOUND,
    "NOT private as it stands: the clipping bound is read from the clients' norms without noise, and ε leaves that out",
)

CLEAN_ROWS = (
    "the noise is drawn on a batch's sum, so the rows in memory are clean; with example.noise = 'row' and"
    " example.each_row every row carries its own"
)
CLEAN_RANDOM_ROWS = (
    "the noise is drawn on a batch's sum, so the rows in memory are clean; example.each_row, which noises every row, is"
    " for batches of fixed size and not for {} batches"
)
PAST_THE_SERVER = (
    "the clients' own reports of their norms choose the next clipping bound and do not pass through the server's noise"
)
