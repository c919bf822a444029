"""Which clients may still be drawn for a round, by limits and budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Admission(Protocol):
    """Enforces limits and budgets. A round for which nobody may be drawn does not run: the training is over."""

    def candidates(self, round: int) -> list[int]:
        """The clients that may be drawn for `round`."""

    def took_part(self, round: int, cohort: Sequence[int]) -> None:
        """`round` ran with this cohort."""


class Limited:
    """Every client takes part in at most `most` rounds (as often as it is drawn, if that is None)."""

    def __init__(self, taken: Sequence[int], most: int | None) -> None:
        self._taken, self._most = list(taken), most

    def candidates(self, round: int) -> list[int]:
        return [client for client, rounds in enumerate(self._taken) if self._most is None or rounds < self._most]

    def took_part(self, round: int, cohort: Sequence[int]) -> None:
        for client in cohort:
            self._taken[client] += 1

    def left(self, rounds: int) -> list[int]:
        """How many rounds each client may still take part in; `rounds`, where nothing limits it."""
        return [rounds if self._most is None else max(self._most - taken, 0) for taken in self._taken]
