"""What one round costs a unit against a view: one rule for each place that adds noise.

| place | unit | seen protected by | costs |
| --- | --- | --- | --- |
| `example` | record | `on_device`: each row's own noise; later views: the sum's | its steps |
| `example`, summed | record | `peer`, `released`, full cohorts of fixed size, one step | its step under all noises |
| `upload` | client | `client` and later | its Gaussian |
| `upload`, summed | client | `peer`, `released`, full cohorts of fixed size | the cohort's noises added up |
| `server` | client | `peer`, `released` | its Gaussian, sampled as the cohort is |

Noise on the whole of a client also hides one record of it: exchanging a record moves the client's contribution inside
the clipping ball, so by at most 2S, and z halves; exchanging the whole client does the same. Noise on records hides a
client only as a group of its N_i records: every step holds up to n = min(N_i, slots of a batch) of them, so taking the
client out changes each of the L sums by at most n·S, and the single noisy rows together by at most sqrt(n)·S. For few
records in Poisson batches the number of them in a sum is counted by its law.

Where others' noises are counted, whoever is gone must leave its own behind: a record's client does, an exchanged client
does, a client that stays and sends zero does, a removed one does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedveil.accounting.events import (
    Counted,
    Step,
    noise_multiplier,
    relation_of,
    row_steps,
    sum_steps,
    total_multiplier,
)
from fedveil.accounting.participation import Participation, chance_seen_by_peer
from fedveil.accounting.route_caveats import CLEAN_RANDOM_ROWS, CLEAN_ROWS
from fedveil.core.guarantee import Relation
from fedveil.core.types import Declaration, Unit, View

LARGEST_GROUP = 64
"""Records of a client whose number in a batch is counted by its law; more are taken to be in it all at once."""
ENOUGH_NOISES = 5
"""From so many on a cohort's noises are worth more than what exchanging a client costs beside removing it."""


@dataclass(frozen=True)
class Unprotected:
    """Nothing bounds what the view learns, for this reason."""

    reason: str


@dataclass(frozen=True)
class RoundCost:
    """The steps of one round and the relation they are counted under.

    `chance` is the probability with which they are made, by a draw that may be seen; None: in rounds taken part in.
    `everybody` says that the steps are due whether or not the client was drawn: the draw is part of them.
    `gathered` says that others' noises are counted.
    """

    steps: Counted
    relation: Relation
    chance: float | None = None
    everybody: bool = False
    gathered: bool = False


@dataclass(frozen=True)
class Situation:
    """Whose noise is to hide what from whom: `relation` is one that was asked for, None for the usual one."""

    unit: Unit
    view: View
    records: int
    participation: Participation
    summed: bool  # single clients' noisy gradients are used for nothing but their plain sum
    relation: Relation | None = None

    @property
    def published(self) -> bool:
        return self.view in (View.PEER, View.RELEASED)

    @property
    def peer(self) -> bool:
        return self.view is View.PEER

    @property
    def exchanges(self) -> bool:
        """Whether the client stays and only what it contributes changes, by up to 2S."""
        return self.unit is Unit.RECORD or self.relation is Relation.REPLACE_ONE

    @property
    def chance(self) -> float | None:
        if not self.published:
            return None
        return chance_seen_by_peer(self.participation) if self.peer else self.participation.chance

    @property
    def noises(self) -> int:
        """How many clients' noises stand before a published sum of a full cohort; a peer knows its own."""
        return max(self.participation.noises - self.peer, 0)

    @property
    def others(self) -> int:
        """How many other clients' coins decide whose noises are in a sum; a peer knows its own."""
        return max(self.participation.clients - 1 - self.peer, 0)


def round_cost_of(declaration: Declaration, case: Situation) -> RoundCost | Unprotected:
    """What one round costs the unit against the view."""
    if declaration.place == "example" and declaration.unit is Unit.RECORD:
        return _on_examples(declaration, case)
    if declaration.place == "upload" and declaration.unit is Unit.CLIENT:
        return _on_upload(declaration, case)
    if declaration.place == "server" and declaration.unit is Unit.CLIENT:
        return _at_server(declaration, case)
    return Unprotected(f"no accounting rule for noise on a {declaration.unit} at {declaration.place!r}")


def _on_examples(declaration: Declaration, case: Situation) -> RoundCost | Unprotected:
    """Rules of records. Where only the plain sum over a full cohort is seen, m equal noises stand before it.

    One local step of plain SGD: every client's update is its noisy sum times a constant, so the sum of the updates has
    the record's (at most S) under m independent noises, z·sqrt(m). With a second step a client's gradients depend on
    its own first noise, and nothing is gained.
    """
    if declaration.sum_std == 0:
        return Unprotected("σ = 0: gradients are clipped, but no noise is added")
    bare = clean_rows(declaration)
    if case.view is View.ON_DEVICE and bare is not None:
        return Unprotected(bare)
    if case.unit is Unit.CLIENT and case.records > 1:
        steps = _group(declaration, case)
        return RoundCost(steps, Relation.ADD_OR_REMOVE, case.chance)
    relation = relation_of(declaration.sampling)
    if case.view is View.ON_DEVICE:
        return RoundCost(row_steps(declaration), relation)
    gathers = case.published and case.summed and declaration.steps == 1 and case.noises > 1
    factor = math.sqrt(case.noises) if gathers else 1.0
    everybody = gathers and case.participation.everyone
    return RoundCost(sum_steps(declaration, factor), relation, case.chance, everybody, gathers)


def clean_rows(declaration: Declaration) -> str | None:
    """Why single examples' gradients lie in memory without noise although noise is added; None where they carry it."""
    if declaration.sampling.kind in ("poisson", "allocated"):
        name = "Poisson" if declaration.sampling.kind == "poisson" else "allocated"
        return CLEAN_RANDOM_ROWS.format(name)
    return CLEAN_ROWS if declaration.row_std == 0 else None


def _group(declaration: Declaration, case: Situation) -> Counted:
    """A whole client by the noise on its records: see the rules above. Its places contribute zero when it is gone."""
    sampling = declaration.sampling
    rows = min(case.records, max(sampling.cap, sampling.batch))
    if case.view is View.ON_DEVICE:
        noise = noise_multiplier(declaration.row_std, declaration.sensitivity) / math.sqrt(rows)
        return ((Step("gaussian", noise), declaration.steps),)
    noise = noise_multiplier(declaration.sum_std, declaration.sensitivity)
    rate = sampling.batch / sampling.records
    if sampling.kind == "poisson" and rate < 1 and case.records == sampling.records <= LARGEST_GROUP:
        return ((Step("group", noise, rate, size=sampling.records, slots=rows), declaration.steps),)
    return ((Step("gaussian", noise / rows), declaration.steps),)


def _on_upload(declaration: Declaration, case: Situation) -> RoundCost | Unprotected:
    """Rules of a client's own noise on its finished update.

    A cohort of fixed size that is always full, of which only the sum is seen: exchanging a client (or one record of it)
    leaves the number of noises as it is and moves the sum by at most 2S, under m noises. Coins: n others were drawn,
    and under their noises and one's own z grows to z·sqrt(n + 1); how many may be seen.
    """
    if case.view is View.ON_DEVICE:
        return Unprotected("noise on the finished update comes after the gradients that this view sees")
    if declaration.sum_std == 0:
        return Unprotected("σ = 0: updates are clipped, but no noise is added")
    noise = total_multiplier(declaration)
    alone = noise / 2 if case.exchanges else noise
    relation = Relation.ADD_OR_REMOVE if case.relation is None else case.relation
    summed = case.published and declaration.adds_up
    if summed and case.relation in (None, Relation.REPLACE_ONE) and case.noises >= ENOUGH_NOISES:
        return _exchanged_in_sum(noise * math.sqrt(case.noises) / 2, declaration.steps, case, gathered=True)
    stays = case.exchanges or case.relation is Relation.ZERO_OUT
    if summed and stays and case.participation.independent and case.chance is not None:
        step = Step("gathered", alone, case.chance, size=case.others)
        return RoundCost(((step, declaration.steps),), relation, case.chance, gathered=True)
    if summed and stays and case.noises > 1:
        step = Step("gaussian", alone * math.sqrt(case.noises))
        return RoundCost(((step, declaration.steps),), relation, case.chance, gathered=True)
    return RoundCost(((Step("gaussian", alone), declaration.steps),), relation, case.chance)


def _at_server(declaration: Declaration, case: Situation) -> RoundCost | Unprotected:
    """Noise at the server, on the sum of the cohort's clipped updates.

    Coins: a client that is not drawn leaves exactly the sum without it, noise included, so for the unit `client` it is
    a Poisson-subsampled Gaussian. One record of a client is different: client present with the record against client
    present without it, both absent with probability 1 − p (`discrete.hidden_record`). Fixed size: exchanging.
    """
    if not case.published:
        return Unprotected("noise is added at the server, after what this view sees")
    if declaration.sum_std == 0:
        return Unprotected("σ = 0: updates are clipped, but no noise is added")
    noise, steps = total_multiplier(declaration), declaration.steps
    taking = case.participation
    relation = Relation.ADD_OR_REMOVE if case.relation is None else case.relation
    sized = case.chance is not None and not taking.independent
    if sized and case.relation in (None, Relation.REPLACE_ONE):
        return _exchanged_in_sum(noise / 2, steps, case, gathered=False)
    if sized:
        return RoundCost(((Step("gaussian", noise / 2 if case.exchanges else noise), steps),), relation, case.chance)
    if case.chance is not None:
        kind = "hidden-record" if case.exchanges else "poisson"
        return RoundCost(((Step(kind, noise, case.chance), steps),), relation, everybody=True)
    return RoundCost(((Step("gaussian", noise / 2 if case.exchanges else noise), steps),), relation)


def _exchanged_in_sum(noise: float, steps: int, case: Situation, gathered: bool) -> RoundCost:
    """A cohort of fixed size m out of K, and only the sum is seen: replace-one, z relative to 2S.

    Where m of K are drawn afresh every round, by a draw that stays hidden, that amplifies; a peer that was not drawn
    knows that the m were drawn from K − 1.
    """
    chance = case.chance
    if chance is None:
        step, everybody = Step("gaussian", noise), case.participation.everyone
        return RoundCost(((step, steps),), Relation.REPLACE_ONE, everybody=everybody, gathered=gathered)
    step = Step("without-replacement", noise, chance) if chance < 1 else Step("gaussian", noise)
    return RoundCost(((step, steps),), Relation.REPLACE_ONE, everybody=True, gathered=gathered)
