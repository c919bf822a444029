"""What a client is charged that counts on nobody else: neither on chance to leave it out, nor on others' noise.

A real site does not draw the cohorts, so it can't know that they are drawn by chance, and it does not see whether
others add their noise. What it counts is what it does itself: each answer, as if everybody knew that it was given.

Within a plan any one place whose noise covers the view bounds what all its answers show, since what comes after noise
is post-processing; the best place counts. How plans add up over a site's lifetime is in `lifetime_filter`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedveil.accounting.budget import Costs, CostSource
from fedveil.accounting.compose import Composition, certify, composition
from fedveil.accounting.context import Context
from fedveil.accounting.count_rule import is_count
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
    """What answers show: a composition for each place and relation that bounds the view, and why others do not."""

    bounds: Costs
    reasons: tuple[str, ...] = ()

    def by_source(self, source: CostSource) -> Composition | None:
        """By the noise of one place under a relation; None where it bounds nothing."""
        known = dict(self.bounds)
        return known.get(source, known.get(("", source[1])))

    def best(self, relation: Relation, delta: float) -> Composition | None:
        """The smallest bound under a relation; None where there is none."""
        source = self.best_source(delta, relation)
        return None if source is None else self.by_source(source)

    def best_source(self, delta: float, relation: Relation | None = None) -> CostSource | None:
        """That of the smallest ε at δ, under a relation if one is given; None where there is none."""
        mine = [(source, parts) for source, parts in self.bounds if relation in (None, source[1])]
        best = min(mine, key=lambda bound: certify(bound[1], delta).epsilon, default=None)
        return None if best is None else best[0]

    def epsilon(self, delta: float) -> float:
        """ε at δ by the best bound; ∞ where there is none."""
        return min((certify(parts, delta).epsilon for _, parts in self.bounds), default=math.inf)


def bounds_of(answers: Answered, records: int, unit: Unit, view: View) -> PlanBounds:
    """What some answers of one plan show of a client of `records` records.

    A bound that was read off norms without noise bounds nothing here: nobody is asked whether that is accepted.
    Measurements alone are bounded under every relation, whatever place a training has its noise at.
    """
    counted = _counted(answers)
    if not counted:
        return PlanBounds(tuple((("", relation), ()) for relation in Relation))
    training = [round for round, _ in counted if not is_count(round.declarations)]
    places = sorted({declaration.place for round in training for declaration in round.declarations})
    every = routes(Exposure(records, counted, counted), ALONE, unit, view, copies=1, strict=True)
    bounds, reasons = [], []
    for place, route in zip(places or [""] * len(every), every, strict=True):
        if isinstance(route, Unprotected):
            reasons.append(route.reason)
        else:
            bounds.append(((place, route.relation), route.parts))
    return PlanBounds(tuple(bounds), tuple(reasons))


def spent_over(plans: Sequence[PlanBounds], delta: float) -> float:
    """ε at δ of all the plans together, as if all had been fixed beforehand; ∞ where they do not add up."""
    total = best_total(plans, delta)
    return math.inf if total is None else certify(total[1], delta).epsilon


def table_alone(context: Context, client: int) -> Table:
    """The guarantee table of one client that takes part in every round it may be asked for, counting on nobody."""
    return answered_table(context, client, planned_answers(context, client))


def answered_table(context: Context, client: int, answers: Answered) -> Table:
    """The table of one client that has given these answers, counting on nobody."""
    counted = _counted(answers)
    exposure = Exposure(context.population.records[client], counted, counted, frozenset(context.method.mechanisms))
    return Table(context, ALONE, (exposure,), (0,), alone_caveats(context))


def table_of_one(table: Table, client: int) -> Table:
    """What a table says of one client, without what it counts on others for."""
    rounds = table.exposures[table.exposure_of[client]].took_part
    return answered_table(table.context, client, [round.declarations for round, times in rounds for _ in range(times)])


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
