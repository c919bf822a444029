"""Budgets, enforced before the spending: pure functions from what was spent to what may still run.

What a client (or, against views to which the cohort is hidden, everybody) has spent is a `Composition` for each place
whose noise bounds the view, under one relation; a round adds its cost. The budget is kept as long as one of these
compositions stays within it. That is the rule of the table; taking the cheapest place of each round would give a bound
that no table shows. How many steps fit into (ε, δ) is cached, so asking again after each round only compares two
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from fedveil.accounting.compose import Composition, Term, certified_delta, certify, composition
from fedveil.accounting.context import Budget, Context
from fedveil.accounting.exposure import routes
from fedveil.accounting.participation import Crowd, Exposure, Round
from fedveil.accounting.round_rules import Unprotected
from fedveil.accounting.table import vacuous
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Relation
from fedveil.parts.cohorts import Everyone

MOST_ROUNDS = 10**9


CostSource = tuple[str, Relation]
"""The place whose noise bounds something, and the relation under which it does: another relation is another bound."""

Costs = tuple[tuple[CostSource, Composition], ...]
"""What something costs, for each source of a bound; empty where nothing bounds it."""

Spent = Costs | None
"""What was spent so far; None before the first round, when no source is ruled out yet."""


def round_cost(
    round: Round, records: int, budget: Budget, crowd: Crowd, copies: int = 1, strict: bool = False
) -> Costs:
    """What one round costs a client of `records` records.

    Against `server` and the device this is due in the rounds the client takes part in. Where `costs_everybody`, it is
    due in every round, drawn or not.
    """
    return _round_cost(round, records, budget, crowd, copies, strict)[0]


def check_promised(context: Context) -> None:
    """Refuse a budget where nothing is promised in any cell, so that no noise could keep it."""
    if context.budget is not None and context.refusal is not None:
        raise FedveilError(f"budget: {context.budget.cell} cannot be kept: {context.refusal}")


def check_kept(round: Round, records: int, budget: Budget, crowd: Crowd, strict: bool = False) -> None:
    """Refuse a budget whose view is not protected at all, or only by a group privacy of which no round fits."""
    costs, reasons = _round_cost(round, records, budget, crowd, 1, strict)
    if not costs:
        raise FedveilError(f"budget: {budget.cell} cannot be kept: {'; '.join(reasons)}")


def _round_cost(
    round: Round, records: int, budget: Budget, crowd: Crowd, copies: int, strict: bool
) -> tuple[Costs, list[str]]:
    """The costs, and why other places do not count."""
    places = sorted({declaration.place for declaration in round.declarations})
    bounds = routes(Exposure(records, ((round, 1),), ((round, 1),)), crowd, budget.unit, budget.view, copies, strict)
    costs, reasons = [], []
    for place, route in zip(places or [""], bounds, strict=True):
        if isinstance(route, Unprotected):
            reasons.append(route.reason)
            continue
        epsilon = certify(route.parts, budget.delta).epsilon if route.group > 1 else 0.0
        if epsilon > budget.epsilon:
            reasons.append(vacuous(route.group, epsilon))
        else:
            costs.append(((place, route.relation), route.parts))
    return tuple(costs), reasons


def costs_everybody(round: Round, budget: Budget, crowd: Crowd) -> bool:
    """Whether a round is due from everybody, drawn or not: who takes part is left to chance and counted on.

    This is so exactly if the round costs something to a client that did not take part in it.
    """
    absent = routes(Exposure(1, (), ((round, 1),)), crowd, budget.unit, budget.view, 1)
    return any(not isinstance(route, Unprotected) and route.parts for route in absent)


def relations_differ(first: Round, last: Round, records: int, budget: Budget, crowd: Crowd) -> bool:
    """Whether a place bounds two rounds under different relations, so that their costs do not add up."""
    before, after = (dict(source for source, _ in round_cost(each, records, budget, crowd)) for each in (first, last))
    return any(after.get(place, relation) is not relation for place, relation in before.items())


def excludes(context: Context) -> bool:
    """Whether the budget may leave single clients out, so that no chance of the draw may be counted on.

    Chance is not counted on either where the rounds that do so could not be added to the others. Cohorts grow or shrink
    monotonically, so it is enough to look at the first and the last round.
    """
    budget, method, population = context.budget, context.method, context.population
    if budget is None:
        return False
    crowd, records = Crowd.of(method, population, limited=False), population.records[0]
    first, last = (context.round(round, records) for round in (0, method.rounds - 1))
    alike = isinstance(method.cohort, Everyone) and len(set(population.records)) == 1  # all have spent the same
    everybody = alike or all(costs_everybody(round, budget, crowd) for round in (first, last))
    return not everybody or relations_differ(first, last, records, budget, crowd)


def crowd_of(context: Context) -> Crowd:
    """The clients of a training, as far as its own limits decide who is left out."""
    return Crowd.of(context.method, context.population, excludes(context))


def charge(spent: Spent, cost: Costs) -> Costs:
    """What is spent after one more round. A source that left one round unprotected bounds nothing any more."""
    return cost if spent is None else _charged(spent, cost)


@lru_cache(maxsize=65536)
def _charged(spent: Costs, cost: Costs) -> Costs:
    now = dict(cost)
    return tuple((source, composition(*parts, *now[source])) for source, parts in spent if source in now)


def stays_within(spent: Composition, budget: Budget) -> bool:
    """Whether all that was `spent` stays within the budget."""
    if not spent:
        return True
    if len(spent) == 1:
        term = spent[0]
        if term.chance == 1 and term.times == 1 and len(term.steps) == 1:
            step, count = term.steps[0]
            return count <= _most(Term(((step, 1),)), budget)
        if term.times > 1 or term.chance < 1:
            return term.times <= _most(Term(term.steps, term.chance, 1), budget)
    # Steps of several kinds that run anyhow are one term, another one after every round: a search would serve it once.
    return certify(spent, budget.delta).epsilon <= budget.epsilon


@lru_cache(maxsize=1024)
def _most(once: Term, budget: Budget) -> int:
    """How many times `once` fits into the budget; more never fits where less does not, so halving finds it."""

    def fits(times: int) -> bool:
        return certify(composition(Term(once.steps, once.chance, times)), budget.delta).epsilon <= budget.epsilon

    return largest(fits, MOST_ROUNDS)


def largest(fits: Callable[[int], bool], most: int, progress: Callable[[float], None] = lambda share: None) -> int:
    """The largest number up to `most` that fits, for a condition that holds up to some number and not beyond; or 0.

    `progress` is told which share of the questions has been asked: as many doublings, then as many halvings.
    """
    if not fits(1):
        return 0
    low, doublings = 1, 1
    while low < most and fits(min(2 * low, most)):
        low, doublings = min(2 * low, most), doublings + 1
        progress(doublings / (2 * most.bit_length() + 2))
    high = min(2 * low, most + 1)
    while high - low > 1:
        progress(1 - (high - low).bit_length() / (2 * doublings + 2))
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


Beside = Callable[[Relation], Composition]
"""What is due beside the rounds, whoever takes part: nothing, unless sites measure the model (`count_rule.py`)."""


def nothing_beside(relation: Relation) -> Composition:
    return ()


def may_spend(spent: Spent, cost: Costs, budget: Budget, beside: Beside = nothing_beside) -> bool:
    """Whether a client that has `spent` so much may take part in a further round of this `cost`.

    The same question for a hidden cohort: whether one more round may run at all.
    """
    return any(stays_within(composition(*parts, *beside(source[1])), budget) for source, parts in charge(spent, cost))


def rounds_left(spent: Spent, cost: Costs, budget: Budget, beside: Beside = nothing_beside) -> int:
    """How many more rounds of this `cost` fit."""
    before = None if spent is None else dict(spent)
    return max(
        (
            _fitting((*(() if before is None else before[source]), *beside(source[1])), parts, budget)
            for source, parts in cost
            if before is None or source in before
        ),
        default=0,
    )


def _fitting(spent: Composition, cost: Composition, budget: Budget) -> int:
    return largest(lambda rounds: stays_within(composition(*spent, *_times(cost, rounds)), budget), MOST_ROUNDS)


def _times(parts: Composition, times: int) -> Composition:
    return tuple(Term(term.steps, term.chance, term.times * times) for term in parts)


def spent_epsilon(spent: Spent, budget: Budget) -> float:
    """ε spent at the budget's δ."""
    return min((certify(parts, budget.delta).epsilon for parts in _begun(spent)), default=math.inf)


def spent_delta(spent: Spent, budget: Budget) -> float:
    """δ spent at the budget's ε: Geyer's form."""
    return min((certified_delta(parts, budget.epsilon) for parts in _begun(spent)), default=1.0)


def _begun(spent: Spent) -> tuple[Composition, ...]:
    return ((),) if spent is None else tuple(parts for _, parts in spent)
