"""Public functions of the round: clipping bounds and learning rates that change over a training.

Rounds count from 0 to T − 1. A schedule depends on nothing but the round, so following one reveals nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from fedveil.core.checks import LARGEST, SMALLEST, FieldError, count, positive
from fedveil.core.errors import FedveilError


@dataclass(frozen=True)
class Constant:
    """The same value in every round."""

    kind: ClassVar[str] = "constant"
    value: float

    def __post_init__(self) -> None:
        positive("value", self.value)

    def at(self, round: int, rounds: int) -> float:
        return self.value


@dataclass(frozen=True)
class Linear:
    """Falls (or grows) evenly from `start` in the first round to `end` in the last: Fed-CDP(decay)."""

    kind: ClassVar[str] = "linear"
    start: float
    end: float

    def __post_init__(self) -> None:
        positive("start", self.start)
        positive("end", self.end)

    def at(self, round: int, rounds: int) -> float:
        share = round / (rounds - 1) if rounds > 1 else 0.0
        return self.start + (self.end - self.start) * min(share, 1.0)


@dataclass(frozen=True)
class Exponential:
    """Multiplied by the same factor every round, from `start` in the first to `end` in the last."""

    kind: ClassVar[str] = "exponential"
    start: float
    end: float

    def __post_init__(self) -> None:
        positive("start", self.start)
        positive("end", self.end)

    def at(self, round: int, rounds: int) -> float:
        share = round / (rounds - 1) if rounds > 1 else 0.0
        return self.start * math.pow(self.end / self.start, min(share, 1.0))


@dataclass(frozen=True)
class Staircase:
    """Multiplied by `factor` after every `every` rounds."""

    kind: ClassVar[str] = "staircase"
    start: float
    factor: float
    every: int

    def __post_init__(self) -> None:
        positive("start", self.start)
        positive("factor", self.factor)
        count("every", self.every)

    def at(self, round: int, rounds: int) -> float:
        return self.start * math.pow(self.factor, round // self.every)


@dataclass(frozen=True)
class Polynomial:
    """start · (1 − t/T)^power, as for federated LDP-SGD; positive in every round because t < T."""

    kind: ClassVar[str] = "polynomial"
    start: float
    power: float

    def __post_init__(self) -> None:
        positive("start", self.start)
        positive("power", self.power)

    def at(self, round: int, rounds: int) -> float:
        return self.start * math.pow(1.0 - round / max(rounds, round + 1), self.power)


Schedule = Constant | Linear | Exponential | Staircase | Polynomial


def schedule(value: Schedule | float) -> Schedule:
    """A number stands for the schedule that never changes."""
    if isinstance(value, Schedule):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FedveilError(f"expected a number or a schedule, not {value!r}")
    return Constant(float(value))


def check_values(name: str, schedule: Schedule, rounds: int, smallest: float = SMALLEST) -> None:
    """Refuse a schedule that leaves the range in which single-precision arithmetic is safe.

    All schedules are monotone, so it is enough to check the first and the last round.
    """
    for round in (0, rounds - 1):
        try:
            value = schedule.at(round, rounds)
        except OverflowError:
            value = math.inf
        if not smallest <= value <= LARGEST:
            raise FieldError(name, f"is {value:g} in round {round}; it must stay between {smallest:g} and {LARGEST:g}")
