"""What a client is charged that counts on nobody else: neither on chance to leave it out, nor on others' noise.

A real site does not draw the cohorts, so it can't know that they are drawn by chance, and it does not see whether
others add their noise. What it counts is what it does itself: each answer, as if everybody knew that it was given.

Plans follow one another on the same records. Within a plan any one place whose noise covers the view bounds what all
its answers show, since what comes after noise is post-processing; the best place counts. Plans compose: under one
relation of neighbours, all that several plans show is bounded by the composition of one bound for each. Bounds under
different relations are never added. Who writes a later plan may know what earlier ones showed: for plain Gaussians that
changes nothing; where batches are sampled, composition takes the later plan's noise and rounds as chosen without it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedveil.accounting.budget import stays_within
from fedveil.accounting.compose import Composition, certify, composition
from fedveil.accounting.context import Budget, Context
from fedveil.accounting.exposure import routes
from fedveil.accounting.participation import Crowd, Exposure, Round, Rounds
from fedveil.accounting.plan import alone_caveats, costliest
from fedveil.accounting.round_rules import Unprotected
from fedveil.accounting.table import Table
from fedveil.core.guarantee import Relation
from fedveil.core.types import Declaration, Unit, View
from fedveil.parts.cohorts import Everyone

ALONE = Crowd(1, limited=True)
"""With cohorts that may leave somebody out, the accountant counts on no chance and on nobody else's noise."""

Answered = Iterable[tuple[Declaration, ...]]
"""What each answer was charged."""


@dataclass(frozen=True)
class PlanBounds:
    """One plan's answers: a relation and a composition for each place that bounds the view, and why others do not."""

    bounds: tuple[tuple[Relation, Composition], ...]
    reasons: tuple[str, ...] = ()

    def best(self, relation: Relation, delta: float) -> Composition | None:
        """The smallest bound under a relation; None where there is none."""
        mine = [parts for kind, parts in self.bounds if kind is relation or not parts]
        return min(mine, key=lambda parts: certify(parts, delta).epsilon, default=None)


def bounds_of(answers: Answered, records: int, unit: Unit, view: View) -> PlanBounds:
    """What the answers of one plan show of a client of `records` records.

    A bound that was read off norms without noise bounds nothing here: nobody is asked whether that is accepted.
    """
    counted = _counted(answers)
    exposure = Exposure(records, counted, counted)
    if not exposure.took_part:
        return PlanBounds(tuple((relation, ()) for relation in Relation))
    every = routes(exposure, ALONE, unit, view, copies=1, strict=True)
    return PlanBounds(
        tuple((route.relation, route.parts) for route in every if not isinstance(route, Unprotected)),
        tuple(route.reason for route in every if isinstance(route, Unprotected)),
    )


def spent_over(plans: Sequence[PlanBounds], delta: float) -> float:
    """ε at δ of all the plans together; ∞ where one is not bounded, or not under the relation of the others."""
    total = best_total(plans, delta)
    return math.inf if total is None else certify(total[1], delta).epsilon


def fits_within(plans: Sequence[PlanBounds], budget: Budget) -> bool:
    """Whether all the plans together stay within a budget."""
    every = [_total(plans, relation, budget.delta) for relation in Relation]
    return any(parts is not None and stays_within(parts, budget) for parts in every)


def table_alone(context: Context, client: int) -> Table:
    """The guarantee table of one client that takes part in every round it may be asked for, counting on nobody."""
    method, records = context.method, context.population.records[client]
    declared = tuple(
        (Round(round.declarations, Everyone()), times) for round, times in context.rounds(range(method.rounds), records)
    )
    taken = declared if context.limit is None else costliest(declared, context.limit)
    exposure = Exposure(records, taken, taken, frozenset(method.mechanisms))
    return Table(context, ALONE, (exposure,), (0,), alone_caveats(context))


def planned_answers(context: Context, client: int) -> list[tuple[Declaration, ...]]:
    """What the answers of all rounds will be charged, or of as many as the plan lets a client take part in."""
    method, records = context.method, context.population.records[client]
    declared = context.rounds(range(method.rounds), records)
    taken = declared if context.limit is None else costliest(declared, context.limit)
    return [round.declarations for round, times in taken for _ in range(times)]


def best_total(plans: Sequence[PlanBounds], delta: float) -> tuple[Relation, Composition] | None:
    """What all the plans together show, under the relation with the least ε at δ; None where there is none."""
    every = [(relation, _total(plans, relation, delta)) for relation in Relation]
    known = [(relation, parts) for relation, parts in every if parts is not None]
    return min(known, key=lambda one: certify(one[1], delta).epsilon, default=None)


def _counted(answers: Answered) -> Rounds:
    return tuple((Round(declared, Everyone()), times) for declared, times in Counter(answers).items())


def _total(plans: Sequence[PlanBounds], relation: Relation, delta: float) -> Composition | None:
    parts = [plan.best(relation, delta) for plan in plans]
    known = [one for one in parts if one is not None]
    return composition(*(term for one in known for term in one)) if len(known) == len(parts) else None
