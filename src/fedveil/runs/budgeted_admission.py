"""A budget kept before it is spent: clients without budget are not drawn, a round nobody can pay does not run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from fedveil.accounting.budget import (
    Budget,
    Costs,
    Spent,
    charge,
    check_kept,
    costs_everybody,
    may_spend,
    relations_differ,
    round_cost,
    rounds_left,
    spent_epsilon,
)
from fedveil.accounting.participation import Crowd, Round
from fedveil.core.errors import FedveilError
from fedveil.engine.admission import Limited
from fedveil.runs.terms import Terms


class Budgeted:
    """Each client's own spending against one (ε, δ, unit, view), on top of its limit of rounds.

    Where the accounting counts on chance to decide who takes part, a round costs everybody, drawn or not: when one
    client cannot pay any more, no further round runs, and nobody is ever left out alone.
    """

    def __init__(self, terms: Terms, budget: Budget, past: Iterable[tuple[int, Sequence[int]]]) -> None:
        self._method, self._population = terms.spec.method, terms.population
        self._layers, self._budget = terms.layers, budget
        limit, clients = self._method.cohort.most, self._population.clients
        self._crowd = crowd_of(terms)
        self._strict = terms.spec.privacy.strict
        self._hidden = not excludes(terms)
        self._limited = Limited([0] * clients, limit)
        self._spent: list[Spent] = [None] * clients
        self._cost = cache(self._round_cost)
        most = max(self._population.records)
        check_kept(self._round(0, most), most, budget, self._crowd, self._strict)
        for round, cohort in past:
            self.took_part(round, cohort)
        if all(spent is None for spent in self._spent) and not self.candidates(0):
            once = spent_epsilon(self._cost(0, min(self._population.records)), budget)
            raise FedveilError(
                f"privacy.epsilon: not even one round fits into ε = {budget.epsilon:g}; a round costs ε = {once:.4g} of"
                f" {budget.unit} × {budget.view}"
            )

    def candidates(self, round: int) -> list[int]:
        able = cache(lambda spent, records: may_spend(spent, self._cost(round, records), self._budget))
        paying = [able(spent, self._population.records[client]) for client, spent in enumerate(self._spent)]
        if self._hidden and not all(paying):
            return []
        return [client for client in self._limited.candidates(round) if paying[client]]

    def took_part(self, round: int, cohort: Sequence[int]) -> None:
        self._limited.took_part(round, cohort)
        for client in range(self._population.clients) if self._hidden else cohort:
            self._spent[client] = charge(self._spent[client], self._cost(round, self._population.records[client]))

    def left(self, round: int) -> list[int]:
        """How many more rounds each client could pay for, at the price of `round`, and may take part in."""
        able = cache(lambda spent, records: rounds_left(spent, self._cost(round, records), self._budget))
        paying = [able(spent, self._population.records[client]) for client, spent in enumerate(self._spent)]
        if self._hidden:
            paying = [min(paying)] * len(paying)
        return [min(pair) for pair in zip(paying, self._limited.left(self._method.rounds), strict=True)]

    def _round(self, round: int, records: int) -> Round:
        declared = self._method.declare(round, records, self._layers, self._crowd.clients)
        return Round(declared, self._method.cohort.at(round, self._method.rounds))

    def _round_cost(self, round: int, records: int) -> Costs:
        """Nothing at all where no noise bounds the round: then nobody can pay for it."""
        return round_cost(self._round(round, records), records, self._budget, self._crowd, strict=self._strict)


def past_of(committed: Sequence[tuple[int, int, list[int]]], seeded: bool, done: int) -> list[tuple[int, list[int]]]:
    """(round, cohort) of what counts against limits and budgets, from a ledger's (round, attempt, cohort).

    A repeated round of an unseeded run draws its cohort and noise anew, so every attempt counts; a seeded run, which is
    not private, repeats the same round.
    """
    past = [(round, cohort) for round, _, cohort in committed]
    if seeded:
        past = list({round: (round, cohort) for round, cohort in past if round < done}.values())
    return past


def budget_of(terms: Terms) -> Budget | None:
    """The budget that the spec asks for."""
    privacy = terms.spec.privacy
    return None if privacy.epsilon is None else Budget(privacy.epsilon, privacy.delta, privacy.unit, privacy.view)


def excludes(terms: Terms) -> bool:
    """Whether the spec's budget may leave single clients out, so that no chance of the draw may be counted on.

    Nor may it where rounds that count on it would not add up with the others. Cohorts grow or shrink all the way, so
    the first and the last round tell.
    """
    budget, method, population = budget_of(terms), terms.spec.method, terms.population
    if budget is None:
        return False
    crowd, records = Crowd.of(method, population.clients, method.cohort.most is not None), population.records[0]
    first, last = (
        Round(method.declare(round, records, terms.layers, population.clients), method.cohort.at(round, method.rounds))
        for round in (0, method.rounds - 1)
    )
    everybody = all(costs_everybody(round, budget, crowd) for round in (first, last))
    return not everybody or relations_differ(first, last, records, budget, crowd)


def crowd_of(terms: Terms) -> Crowd:
    """The spec's clients, as the accountant sees them."""
    method = terms.spec.method
    limited = method.cohort.most is not None or excludes(terms)
    return Crowd.of(method, terms.population.clients, limited)
