"""Which clients take part in a round.

`draw` chooses among the candidates: all clients, less those that have taken part `most` times already where the
sampler has such a limit. `can_draw` says whether a cohort can be the outcome of that. Divisors use the declared size
whoever is left. `at` gives the sampler of one round: cohorts may grow (or shrink) over the training by a public
schedule.

Real sites may fail to answer. `quorum` is how many of a cohort must have answered before anything of their round is
published; without it all of them must. Who is drawn and who has answered are two things: all who were drawn have paid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from fedveil.core.checks import FieldError, count
from fedveil.core.deferred import np
from fedveil.core.errors import FedveilError
from fedveil.mechanisms.schedules import Constant, Schedule, schedule


def _level() -> Schedule:
    return Constant(1.0)


def needed(cohort: Cohort, drawn: int) -> int:
    """How many answers of a cohort of `drawn` clients it takes to publish what they make together."""
    return drawn if cohort.quorum is None else min(cohort.quorum, drawn)


def _check_quorum(quorum: int | None) -> None:
    count("quorum", 1 if quorum is None else quorum)


@dataclass(frozen=True)
class PoissonCohort:
    """Every client joins by its own coin, with probability `rate`: the sampling that amplifies privacy.

    The size of a round is random; the divisor is the expected one.
    """

    kind: ClassVar[str] = "poisson"
    rate: float
    most: int | None = None  # rounds that one client may take part in
    growth: Schedule = field(default_factory=_level)  # the rate of round t is rate · growth(t), at most 1
    quorum: int | None = None  # answers without which a round is not published

    def __post_init__(self) -> None:
        object.__setattr__(self, "growth", schedule(self.growth))
        count("most", 1 if self.most is None else self.most)
        _check_quorum(self.quorum)
        if not 0 < self.rate <= 1:
            raise FieldError("rate", f"must be above 0 and at most 1, not {self.rate}")

    def draw(self, candidates: Sequence[int], generator: np.random.Generator) -> list[int]:
        joined = np.flatnonzero(generator.random(len(candidates)) < self.rate)
        return [candidates[int(index)] for index in joined]

    def can_draw(self, cohort: Sequence[int], candidates: Sequence[int]) -> bool:
        return set(cohort) <= set(candidates)

    def at(self, round: int, rounds: int) -> PoissonCohort:
        return PoissonCohort(min(self.rate * self.growth.at(round, rounds), 1.0), self.most, quorum=self.quorum)

    def divisor(self, clients: int) -> float:
        return self.rate * clients

    def check(self, clients: int) -> None:
        """Any population can be sampled."""


@dataclass(frozen=True)
class FixedSize:
    """`size` clients, uniformly without replacement (K_t of K)."""

    kind: ClassVar[str] = "fixed"
    size: int
    most: int | None = None  # rounds that one client may take part in
    growth: Schedule = field(default_factory=_level)  # m_t is size · growth(t), rounded, at least 1
    quorum: int | None = None  # answers without which a round is not published

    def __post_init__(self) -> None:
        object.__setattr__(self, "growth", schedule(self.growth))
        count("most", 1 if self.most is None else self.most)
        count("size", self.size)
        _check_quorum(self.quorum)

    def draw(self, candidates: Sequence[int], generator: np.random.Generator) -> list[int]:
        if not candidates:
            return []
        size = min(self.size, len(candidates))
        chosen = generator.choice(len(candidates), size=size, replace=False, shuffle=False)
        return sorted(candidates[int(index)] for index in chosen)

    def can_draw(self, cohort: Sequence[int], candidates: Sequence[int]) -> bool:
        return set(cohort) <= set(candidates) and len(cohort) == min(self.size, len(candidates))

    def at(self, round: int, rounds: int) -> FixedSize:
        grown = self.size * self.growth.at(round, rounds)
        if grown > 2**30:
            raise FedveilError(f"cohort.growth: {grown:g} clients in round {round}")
        return FixedSize(max(int(grown + 0.5), 1), self.most, quorum=self.quorum)

    def divisor(self, clients: int) -> float:
        return float(self.size)

    def check(self, clients: int) -> None:
        if self.size > clients:
            raise FedveilError(f"cohort.size: {self.size} clients a round, but there are only {clients}")
        if self.quorum is not None and self.quorum > self.size:
            raise FedveilError(f"cohort.quorum: {self.quorum} answers, but a cohort has only {self.size} clients")


@dataclass(frozen=True)
class Everyone:
    """All clients in every round."""

    kind: ClassVar[str] = "everyone"
    most: ClassVar[None] = None
    quorum: int | None = None  # answers without which a round is not published

    def __post_init__(self) -> None:
        _check_quorum(self.quorum)

    def at(self, round: int, rounds: int) -> Everyone:
        return self

    def draw(self, candidates: Sequence[int], generator: np.random.Generator) -> list[int]:
        return list(candidates)

    def can_draw(self, cohort: Sequence[int], candidates: Sequence[int]) -> bool:
        return list(cohort) == list(candidates)

    def divisor(self, clients: int) -> float:
        return float(clients)

    def check(self, clients: int) -> None:
        if self.quorum is not None and self.quorum > clients:
            raise FedveilError(f"cohort.quorum: {self.quorum} answers, but there are only {clients} clients")


Cohort = PoissonCohort | FixedSize | Everyone
