"""Which clients may still be drawn for a round, by limits and budgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from fedveil.method import Method
from fedveil.parts.cohorts import FixedSize


class Admission(Protocol):
    """Enforces limits and budgets. A round for which nobody may be drawn does not run: the training is over."""

    def candidates(self, round: int) -> list[int]:
        """The clients that may be drawn for `round`."""

    def took_part(self, round: int, cohort: Sequence[int]) -> None:
        """`round` ran with this cohort."""


class Limited:
    """Every client takes part in at most `most` rounds (as often as it is drawn, if that is None).

    `least` says how many a round needs: with fewer candidates it does not run, and the training is over.
    """

    def __init__(self, taken: Sequence[int], most: int | None, least: Callable[[int], int] = lambda round: 0) -> None:
        self._taken, self._most, self._least = list(taken), most, least

    @staticmethod
    def of(method: Method, taken: Sequence[int]) -> Limited:
        """The method's limit of rounds; where noises of a whole cohort are counted together, for full cohorts only."""
        cohort = method.cohort
        if not (method.counts_on_full_cohorts and isinstance(cohort, FixedSize)):
            return Limited(taken, cohort.most)
        return Limited(taken, cohort.most, lambda round: cohort.at(round, method.rounds).size)

    def candidates(self, round: int) -> list[int]:
        able = [client for client, rounds in enumerate(self._taken) if self._most is None or rounds < self._most]
        return able if len(able) >= self._least(round) else []

    def took_part(self, round: int, cohort: Sequence[int]) -> None:
        for client in cohort:
            self._taken[client] += 1

    def left(self, rounds: int) -> list[int]:
        """How many rounds each client may still take part in; `rounds`, where nothing limits it."""
        return [rounds if self._most is None else max(self._most - taken, 0) for taken in self._taken]
