"""What it costs that sites measure the model on records of their own (`mechanisms/right_counts.py`).

Counts are no part of a training: whatever bounds the training, what they show comes on top, so they compose with every
route. They do so whether the records are the training's or others. Were no record in both, each would meet one of the
two only, and the larger ε would do: the counts of a model are post-processing for a record of the training, and later
rounds, which may follow the counts, are post-processing for a record of the counts. But somebody with a record in each
would then have paid for one of them; nothing here can see that, so nothing is gained from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fedveil.accounting.compose import Composition, Term, composition
from fedveil.accounting.context import Budget, Context
from fedveil.accounting.events import Step
from fedveil.accounting.participation import Exposure, Round, Rounds
from fedveil.accounting.round_rules import Unprotected
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Relation
from fedveil.core.types import Declaration, Unit, View
from fedveil.mechanisms.right_counts import EVALUATION, EXCHANGED, SENSITIVITY
from fedveil.parts.cohorts import Everyone

WHOLE_CLIENT = "sites count right answers under noise that hides one record, not all that a site holds"
NO_NOISE = "the counts at the sites have no noise"
IN_MEMORY = "sites measure the model on records of their own, whose answers lie in memory without noise"


def is_count(declared: tuple[Declaration, ...]) -> bool:
    """Whether something that was charged is a measurement, and not a round of a training."""
    return bool(declared) and all(one.place == EVALUATION for one in declared)


def with_counts(exposure: Exposure, context: Context) -> Exposure:
    """A client's training, and all measurements that go with it."""
    if context.counts is None:
        return exposure
    round = Round((context.counts.declare(exposure.records),), Everyone())
    return replace(exposure, took_part=(*exposure.took_part, (round, context.counts.times(context.method.rounds))))


def without_counts(exposure: Exposure) -> tuple[Exposure, Rounds]:
    """The training alone, and the measurements."""
    counts = tuple((round, times) for round, times in exposure.took_part if is_count(round.declarations))
    if not counts:
        return exposure, ()
    training, every = (
        tuple((round, times) for round, times in rounds if not is_count(round.declarations))
        for rounds in (exposure.took_part, exposure.all_rounds)
    )
    return replace(exposure, took_part=training, all_rounds=every), counts


def count_terms(counts: Rounds, relation: Relation, unit: Unit, view: View) -> Composition | Unprotected:
    """What measurements cost one unit against a view, under a relation."""
    if not counts:
        return ()
    if unit is Unit.CLIENT:
        return Unprotected(WHOLE_CLIENT)
    if view is View.ON_DEVICE:
        return Unprotected(IN_MEMORY)
    terms = []
    for round, times in counts:
        for declared in round.declarations:
            if not declared.sum_std > 0:
                return Unprotected(NO_NOISE)
            moved = declared.sensitivity * (EXCHANGED / SENSITIVITY if relation is Relation.REPLACE_ONE else 1.0)
            terms.append(Term(((Step("gaussian", declared.sum_std / moved), declared.steps),), times=times))
    return composition(*terms)


def due_beside(context: Context, budget: Budget) -> Callable[[Relation], Composition]:
    """What a budget must have room for beside the rounds: all measurements, from the beginning."""
    if context.counts is None:
        return lambda relation: ()
    counts = with_counts(Exposure(1, (), ()), context).took_part

    def beside(relation: Relation) -> Composition:
        terms = count_terms(counts, relation, budget.unit, budget.view)
        if isinstance(terms, Unprotected):
            raise FedveilError(f"budget: {budget.cell} cannot be kept: {terms.reason}")
        return terms

    return beside
