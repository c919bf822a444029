"""Which clients take part in a round.

`draw` chooses among the candidates: all clients, less those that have taken part `most` times already where the
sampler has such a limit. Divisors use the declared size whoever is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedveil.core.checks import FieldError, count
from fedveil.core.errors import FedveilError


@dataclass(frozen=True)
class PoissonCohort:
    """Every client joins by its own coin, with probability `rate`: the sampling that amplifies privacy.

    The size of a round is random; the divisor is the expected one.
    """

    kind: ClassVar[str] = "poisson"
    rate: float
    most: int | None = None  # rounds that one client may take part in

    def __post_init__(self) -> None:
        count("most", 1 if self.most is None else self.most)
        if not 0 < self.rate <= 1:
            raise FieldError("rate", f"must be above 0 and at most 1, not {self.rate}")

    def draw(self, candidates: Sequence[int], generator: np.random.Generator) -> list[int]:
        joined = np.flatnonzero(generator.random(len(candidates)) < self.rate)
        return [candidates[int(index)] for index in joined]

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

    def __post_init__(self) -> None:
        count("most", 1 if self.most is None else self.most)
        count("size", self.size)

    def draw(self, candidates: Sequence[int], generator: np.random.Generator) -> list[int]:
        if not candidates:
            return []
        size = min(self.size, len(candidates))
        chosen = generator.choice(len(candidates), size=size, replace=False, shuffle=False)
        return sorted(candidates[int(index)] for index in chosen)

    def divisor(self, clients: int) -> float:
        return float(self.size)

    def check(self, clients: int) -> None:
        if self.size > clients:
            raise FedveilError(f"cohort.size: {self.size} clients a round, but there are only {clients}")


@dataclass(frozen=True)
class Everyone:
    """All clients in every round."""

    kind: ClassVar[str] = "everyone"
    most: ClassVar[None] = None

    def draw(self, candidates: Sequence[int], generator: np.random.Generator) -> list[int]:
        return list(candidates)

    def divisor(self, clients: int) -> float:
        return float(clients)

    def check(self, clients: int) -> None:
        """Any population can be sampled."""


Cohort = PoissonCohort | FixedSize | Everyone
