"""What one client's data went through, and which part of it counts against a view.

A view's guarantee composes only the mechanisms that act before what the view sees. Rules by place of the noise:

| place | unit | seen protected by | costs |
| --- | --- | --- | --- |
| `example` | record | `on_device`: each row's own noise; later views: the sum's | its steps, each round taken part in |
| `upload` | client | `client` and later | its Gaussian, each round taken part in |
| `upload`, summed | client | `peer`, `released`, cohorts of fixed size | the cohort's noises added up, every round |
| `server` | client | `peer`, `released` | its Gaussian, every round, sampled as the cohort is |

Noise on the whole of a client also hides one record of it: exchanging a record moves the client's contribution inside
the clipping ball, so by at most 2S, and z halves. Noise on records hides a client only as a group of its N_i records:
every step holds up to n = min(N_i, slots of a batch) of them, so taking the client out changes each of the L sums by at
most n·S, and the single noisy rows together by at most sqrt(n)·S; L plain Gaussians with z/n or z/sqrt(n), whatever the
sampling. The table prints this as vacuous where it says nothing (`table.VACUOUS`).

A clipping bound that follows the clients' own reports passes the server's noise by: beside it that noise counts for
nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fedveil.accounting.compose import Composition, Term, composition
from fedveil.accounting.events import (
    Counted,
    Step,
    noise_multiplier,
    relation_of,
    row_steps,
    sum_steps,
    total_multiplier,
)
from fedveil.accounting.participation import Crowd, Exposure, Participation, Round
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Caveat, CaveatKind, Relation
from fedveil.core.types import Declaration, Unit, View

HIDDEN_DRAW = Caveat(
    CaveatKind.HIDDEN_DRAW,
    "who takes part is decided by a draw that this view never sees; ε holds over that draw, and not for a client known"
    " to have been drawn",
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
LEAKED_BOUND = Caveat(
    CaveatKind.LEAKED_BOUND,
    "NOT private as it stands: the clipping bound is read from the clients' norms without noise, and ε leaves that out",
)

CLEAN_ROWS = (
    "the noise is drawn on a batch's sum, so the rows in memory are clean; with example.noise = 'row' and"
    " example.each_row every row carries its own"
)
CLEAN_POISSON_ROWS = (
    "the noise is drawn on a batch's sum, so the rows in memory are clean; example.each_row, which noises every row, is"
    " for batches of fixed size and not for Poisson batches"
)
PAST_THE_SERVER = (
    "the clients' own reports of their norms choose the next clipping bound and do not pass through the server's noise"
)


@dataclass(frozen=True)
class Route:
    """A composition that bounds what a view learns, with the relation and the caveats it stands under."""

    parts: Composition
    relation: Relation
    caveats: tuple[Caveat, ...] = ()
    group: int = 1  # how many records stand for the unit, where noise on single ones has to hide them all


@dataclass(frozen=True)
class Unprotected:
    """Nothing bounds what the view learns, for this reason."""

    reason: str


def routes(
    exposure: Exposure, crowd: Crowd, unit: Unit, view: View, copies: int, strict: bool = False
) -> list[Route | Unprotected]:
    """One route per place that adds noise; each bounds the view by itself, because what follows is post-processing.

    `strict` gives no guarantee where a bound was read from the norms without noise.
    """
    declared = exposure.places | {
        declaration.place for round, _ in exposure.took_part + exposure.all_rounds for declaration in round.declarations
    }
    if not declared:
        return [Unprotected("no mechanism adds noise")]
    mixed = crowd.mixing and view is View.PEER
    every = [
        _route(place, exposure, crowd, unit, View.SERVER if mixed else view, copies, strict)
        for place in sorted(declared)
    ]
    if not mixed:
        return every
    return [
        route if isinstance(route, Unprotected) else replace(route, caveats=(*route.caveats, PEER_MIXED))
        for route in every
    ]


def _route(
    place: str, exposure: Exposure, crowd: Crowd, unit: Unit, view: View, copies: int, strict: bool
) -> Route | Unprotected:
    every = {round: Participation.of(round.cohort, crowd) for round, _ in exposure.all_rounds + exposure.took_part}
    if place == "server" and any(
        d.report is not None for round in every for d in round.declarations if d.place != place
    ):
        return Unprotected(PAST_THE_SERVER)
    published = view in (View.PEER, View.RELEASED)
    hidden = published and any(taking.chance is not None for taking in every.values())
    summed = published and _summed(place, every, view)
    # Where it is left to chance who is in a round, the round costs everybody, drawn or not.
    terms: list[Term] = []
    relations: set[Relation] = set()
    leaked = False
    for round, times in exposure.all_rounds if hidden or summed else exposure.took_part:
        mine = [declaration for declaration in round.declarations if declaration.place == place]
        if not mine:
            return Unprotected(f"{place}: there are rounds in which this mechanism did not run")
        for declaration in mine:
            term = _one_round(declaration, exposure.records, every[round], unit, view, summed)
            if isinstance(term, Unprotected):
                return term
            terms.append(
                _of_all_copies(term[0], times, copies if unit is Unit.RECORD else 1, place == "server" or summed)
            )
            relations.add(term[1])
            leaked = leaked or declaration.leaks_bound
    if leaked and strict:
        return Unprotected("the clipping bound is read from the clients' norms without noise, and strict is asked for")
    if len(relations) > 1:
        raise FedveilError(f"{place}: rounds accounted under different relations cannot be composed")
    relation = relations.pop() if relations else Relation.ADD_OR_REMOVE
    sized = any(step.kind == "without-replacement" for term in terms for step, _ in term.steps)
    caveats = [LEAKED_BOUND] * leaked + _caveats(sized, view, hidden, summed, place)
    group = exposure.records if place == "example" and unit is Unit.CLIENT else 1
    return Route(composition(*terms), relation, tuple(caveats), group)


def _of_all_copies(term: Term, times: int, copies: int, one_noise: bool) -> Term:
    """`times` rounds of a term, for a record that several clients hold.

    Where each client's noise is its own, every copy costs once more. Where one noise covers the sum, copies move it
    together, by `copies` times as much in the same round, and no chance of the draw is counted on.
    """
    if copies == 1 or not one_noise:
        return Term(term.steps, term.chance, term.times * times * copies)
    together = tuple((Step("gaussian", step.noise_multiplier / copies), count) for step, count in term.steps)
    return Term(together, 1.0, term.times * times)


def _caveats(sized: bool, view: View, hidden: bool, summed: bool, place: str) -> list[Caveat]:
    together = summed and place == "upload"
    caveats = []
    if hidden or (summed and sized):
        caveats.append(HIDDEN_DRAW)
    if view is View.PEER:
        caveats.append(PEER_SUMMED if together else PEER_SIZED if summed else PEER_BOUNDED)
    if together:
        caveats.append(OTHERS_NOISE)
    return caveats


def _one_round(
    declaration: Declaration, records: int, participation: Participation, unit: Unit, view: View, summed: bool
) -> tuple[Term, Relation] | Unprotected:
    """What one round costs the unit against the view."""
    if summed and declaration.sum_std > 0:
        return _sampled_sum(declaration, participation, view)
    if declaration.place == "example" and declaration.unit is Unit.RECORD:
        whole = unit is Unit.CLIENT and records > 1
        steps = _group(declaration, records, view) if whole else _example(declaration, view)
        relation = Relation.ADD_OR_REMOVE if whole else relation_of(declaration.sampling)
    elif declaration.place == "upload" and declaration.unit is Unit.CLIENT:
        if view is View.ON_DEVICE:
            return Unprotected("noise on the finished update comes after the gradients that this view sees")
        steps = _whole(declaration, unit)
        relation = Relation.ADD_OR_REMOVE
    elif declaration.place == "server" and declaration.unit is Unit.CLIENT:
        return _server(declaration, participation, unit, view)
    else:
        return Unprotected(f"no accounting rule for noise on a {declaration.unit} at {declaration.place!r}")
    if isinstance(steps, Unprotected):
        return steps
    chance = participation.chance if view in (View.PEER, View.RELEASED) else None
    return Term(steps, chance or 1.0), relation


def _example(declaration: Declaration, view: View) -> Counted | Unprotected:
    if declaration.sum_std == 0:
        return Unprotected("σ = 0: gradients are clipped, but no noise is added")
    if view is not View.ON_DEVICE:
        return sum_steps(declaration)
    bare = clean_rows(declaration)
    return row_steps(declaration) if bare is None else Unprotected(bare)


def clean_rows(declaration: Declaration) -> str | None:
    """Why single examples' gradients lie in memory without noise although noise is added; None where they carry it."""
    if declaration.sampling.kind == "poisson":
        return CLEAN_POISSON_ROWS
    return CLEAN_ROWS if declaration.row_std == 0 else None


def _group(declaration: Declaration, records: int, view: View) -> Counted | Unprotected:
    """A whole client by the noise on its records: see the rules above. Its places contribute zero when it is gone."""
    alone = _example(declaration, view)
    if isinstance(alone, Unprotected):
        return alone
    rows = min(records, max(declaration.sampling.cap, declaration.sampling.batch))
    if view is View.ON_DEVICE:
        noise = noise_multiplier(declaration.row_std, declaration.sensitivity) / math.sqrt(rows)
    else:
        noise = noise_multiplier(declaration.sum_std, declaration.sensitivity) / rows
    return ((Step("gaussian", noise), declaration.steps),)


def _whole(declaration: Declaration, unit: Unit) -> Counted | Unprotected:
    if declaration.sum_std == 0:
        return Unprotected("σ = 0: updates are clipped, but no noise is added")
    noise = total_multiplier(declaration)
    return ((Step("gaussian", noise if unit is Unit.CLIENT else noise / 2), declaration.steps),)


def _noises(participation: Participation, view: View) -> int:
    """How many clients' noises surely stand before a published sum; a peer knows its own."""
    surely = participation.size if participation.quorum is None else participation.quorum
    return (surely or 0) - (view is View.PEER)


def _summed(place: str, rounds: dict[Round, Participation], view: View) -> bool:
    """Whether the rounds are accounted on the sums of cohorts of fixed size, under replace-one.

    For noise of the clients' own that pays when more than four of them add up: replacing one moves the sum by 2S.
    """
    if not rounds or any(taking.size is None for taking in rounds.values()):
        return False
    if place == "upload":
        mine = [d for round in rounds for d in round.declarations if d.place == place]
        return all(d.adds_up for d in mine) and all(_noises(taking, view) > 4 for taking in rounds.values())
    sampled = any((taking.size or 0) < taking.clients for taking in rounds.values())
    complete = all(taking.quorum is None for taking in rounds.values())
    return place == "server" and sampled and complete


def _sampled_sum(declaration: Declaration, participation: Participation, view: View) -> tuple[Term, Relation]:
    """A cohort of fixed size m out of K, and only the sum is seen: replace-one, so z halves.

    Replacing a client (or one record of it) leaves the number of noises as it is and moves the sum by at most 2S.
    Noise at the server is that of the sum already; of the clients' own, m independent ones add up to sqrt(m) times.
    A peer that was not drawn knows that the m were drawn from K − 1. Where some of the m may not answer, no more noises
    than the quorum are counted, and the draw is taken as seen.
    """
    assert participation.size is not None
    gathered = _noises(participation, view) ** 0.5 if declaration.place == "upload" else 1.0
    others = participation.clients - (view is View.PEER)
    noise, share = total_multiplier(declaration) * gathered / 2, participation.size / max(others, 1)
    if participation.quorum is not None:
        share = 1.0
    step = Step("without-replacement", noise, share) if share < 1 else Step("gaussian", noise)
    return Term(((step, declaration.steps),)), Relation.REPLACE_ONE


def _server(
    declaration: Declaration, participation: Participation, unit: Unit, view: View
) -> tuple[Term, Relation] | Unprotected:
    """Noise at the server, on the sum of the cohort's clipped updates.

    A client that is not drawn leaves exactly the sum without it, noise included, so for the unit `client` Poisson
    cohorts are a Poisson-subsampled Gaussian. One record of a client is different: client present with the record
    against client present without it, both absent with probability 1 − p; see `pld.seen_draw`.
    """
    if view not in (View.PEER, View.RELEASED):
        return Unprotected("noise is added at the server, after what this view sees")
    steps = _whole(declaration, unit)
    if isinstance(steps, Unprotected):
        return steps
    (step, count), chance = steps[0], participation.chance
    if unit is Unit.RECORD:
        return Term(steps, chance or 1.0), Relation.ADD_OR_REMOVE
    if chance is not None and participation.quorum is not None:
        return Term(steps, chance), Relation.ADD_OR_REMOVE
    if chance is not None:
        return Term(((Step("poisson", step.noise_multiplier, chance), count),)), Relation.ADD_OR_REMOVE
    return Term(steps), Relation.ADD_OR_REMOVE
