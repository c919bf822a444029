"""A budget kept before it is spent: clients without budget are not drawn, a round nobody can pay does not run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from fedveil.accounting.budget import Budget, charge, may_spend, round_cost
from fedveil.accounting.compose import Composition
from fedveil.accounting.exposure import Participation
from fedveil.core.types import View
from fedveil.engine.admission import Limited
from fedveil.experiment.prepare import Prepared


class Budgeted:
    """Each client's own spending against one (ε, δ, unit, view), on top of its limit of rounds.

    Against a view that does not see who takes part, a round costs everybody, drawn or not: when one client cannot pay
    any more, no further round runs.
    """

    def __init__(self, prepared: Prepared, budget: Budget, past: Iterable[tuple[int, Sequence[int]]]) -> None:
        self._method, self._population = prepared.spec.method, prepared.sites.population
        self._layers, self._budget = prepared.layout.group_count, budget
        limit, clients = self._method.cohort.most, self._population.clients
        self._participation = Participation.of(self._method.cohort, clients, limit)
        self._hidden = budget.view in (View.PEER, View.RELEASED) and self._participation.chance is not None
        self._limited = Limited([0] * clients, limit)
        self._spent: list[Composition] = [()] * clients
        self._cost = cache(self._round_cost)
        self._cost(0, max(self._population.records))  # refuse at once what can never be kept
        for round, cohort in past:
            self.took_part(round, cohort)

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

    def _round_cost(self, round: int, records: int) -> Composition:
        declared = self._method.declare(round, records, self._layers)
        return round_cost(declared, records, self._budget, self._participation)
