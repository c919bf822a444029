"""Which clients take part in a round."""

from __future__ import annotations

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

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise FieldError("rate", f"must be above 0 and at most 1, not {self.rate}")

    def draw(self, clients: int, generator: np.random.Generator) -> list[int]:
        return [int(client) for client in np.flatnonzero(generator.random(clients) < self.rate)]

    def divisor(self, clients: int) -> float:
        return self.rate * clients

    def check(self, clients: int) -> None:
        """Any population can be sampled."""


@dataclass(frozen=True)
class FixedSize:
    """`size` clients, uniformly without replacement (K_t of K)."""

    kind: ClassVar[str] = "fixed"
    size: int

    def __post_init__(self) -> None:
        count("size", self.size)

    def draw(self, clients: int, generator: np.random.Generator) -> list[int]:
        chosen = generator.choice(clients, size=self.size, replace=False, shuffle=False)
        return sorted(int(client) for client in chosen)

    def divisor(self, clients: int) -> float:
        return float(self.size)

    def check(self, clients: int) -> None:
        if self.size > clients:
            raise FedveilError(f"cohort.size: {self.size} clients a round, but there are only {clients}")


@dataclass(frozen=True)
class Everyone:
    """All clients in every round."""

    kind: ClassVar[str] = "everyone"

    def draw(self, clients: int, generator: np.random.Generator) -> list[int]:
        return list(range(clients))

    def divisor(self, clients: int) -> float:
        return float(clients)

    def check(self, clients: int) -> None:
        """Any population can be sampled."""


Cohort = PoissonCohort | FixedSize | Everyone
