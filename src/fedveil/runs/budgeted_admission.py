"""Admission by budget: a client whose budget is spent is not drawn; a round that nobody can pay for does not run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from fedveil.accounting.budget import (
    Costs,
    Spent,
    charge,
    check_kept,
    check_promised,
    crowd_of,
    excludes,
    may_spend,
    round_cost,
    rounds_left,
    spent_epsilon,
)
from fedveil.accounting.context import Budget, Context
from fedveil.accounting.count_rule import due_beside
from fedveil.core.errors import FedveilError
from fedveil.engine.admission import Limited
from fedveil.ledger.entries import LedgerRound

Past = Iterable[tuple[int, Sequence[int]]]
"""(round, cohort) of what counts against limits and budgets."""


def admission_of(context: Context, past: Past) -> Limited | Budgeted:
    """Who may still take part, by the limit of rounds and the budget, after what was spent before.

    A budget that can't be kept is refused here.
    """
    if context.budget is not None:
        return Budgeted(context, context.budget, past)
    taken = Counter(client for _, cohort in past for client in cohort)
    return Limited.of(context.method, [taken[client] for client in range(context.population.clients)])


class Budgeted:
    """Each client's own spending against one (ε, δ, unit, view), on top of its limit of rounds.

    Where the accounting counts on chance to decide who takes part, a round costs everybody, drawn or not: when one
    client cannot pay any more, no further round runs, and nobody is ever left out alone.
    """

    def __init__(self, context: Context, budget: Budget, past: Past) -> None:
        check_promised(context)
        self._context, self._budget = context, budget
        self._records = context.population.records
        self._crowd = crowd_of(context)
        self._beside = due_beside(context, budget)
        self._hidden = not excludes(context)
        nothing = [0] * len(self._records)
        self._limited = Limited.of(context.method, nothing) if self._hidden else Limited(nothing, context.limit)
        self._spent: list[Spent] = [None] * len(self._records)
        self._cost = cache(self._round_cost)
        most = max(self._records)
        check_kept(context.round(0, most), most, budget, self._crowd, context.strict)
        for round, cohort in past:
            self.took_part(round, cohort)
        if all(spent is None for spent in self._spent) and not self.candidates(0):
            once = spent_epsilon(self._cost(0, min(self._records)), budget)
            raise FedveilError(
                f"privacy.epsilon: not even one round fits into ε = {budget.epsilon:g}; a round costs ε = {once:.4g} of"
                f" {budget.cell}{', beside what sites count' if context.counts is not None else ''}"
            )

    def candidates(self, round: int) -> list[int]:
        able = cache(lambda spent, records: may_spend(spent, self._cost(round, records), self._budget, self._beside))
        paying = [able(spent, self._records[client]) for client, spent in enumerate(self._spent)]
        if self._hidden and not all(paying):
            return []
        return [client for client in self._limited.candidates(round) if paying[client]]

    def took_part(self, round: int, cohort: Sequence[int]) -> None:
        self._limited.took_part(round, cohort)
        for client in range(len(self._records)) if self._hidden else cohort:
            self._spent[client] = charge(self._spent[client], self._cost(round, self._records[client]))

    def left(self, round: int) -> list[int]:
        """How many more rounds each client could pay for, at the price of `round`, and may take part in."""
        able = cache(lambda spent, records: rounds_left(spent, self._cost(round, records), self._budget, self._beside))
        paying = [able(spent, self._records[client]) for client, spent in enumerate(self._spent)]
        if self._hidden:
            paying = [min(paying)] * len(paying)
        limits = self._limited.left(self._context.method.rounds)
        return [min(pair) for pair in zip(paying, limits, strict=True)]

    def _round_cost(self, round: int, records: int) -> Costs:
        """What a round costs; empty where no noise bounds the round, and then nobody can pay for it."""
        declared = self._context.round(round, records)
        return round_cost(declared, records, self._budget, self._crowd, strict=self._context.strict)


def past_of(rounds: Sequence[LedgerRound], seeded: bool, done: int) -> list[tuple[int, Sequence[int]]]:
    """What counts against limits and budgets of the attempts in a ledger.

    A repeated round of an unseeded run draws its cohort and noise anew, so every attempt counts; a seeded run, which is
    not private, repeats the same round.
    """
    past = [(entry.round, entry.cohort) for entry in rounds]
    if seeded:
        past = list({round: (round, cohort) for round, cohort in past if round < done}.values())
    return list(past)
