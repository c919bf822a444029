"""What the optimisers of attacks share: the objective they are given, the minimum they return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

Mismatch = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Maps points `[V, n]` of the attacks `members` `[V]` to values `[V]` and slopes `[V, n]`."""

UPDATES = 20
"""Updates in one iteration, of any optimiser: the papers count calls of PyTorch's L-BFGS, which makes 20 a call."""

Watch = Callable[[Tensor, Tensor, Tensor], None]
"""Called with the attacks `members`, how many updates each has made, and where each stands."""


def nobody(members: Tensor, updates: Tensor, points: Tensor) -> None:
    """The watch that does not look."""


@dataclass(frozen=True)
class Minima:
    """Where A attacks ended."""

    points: Tensor  # [A, n]
    values: Tensor  # [A]
    updates: Tensor  # [A] int64
    evaluations: int  # of the objective, summed over attacks

    @staticmethod
    def join(parts: Sequence[Minima]) -> Minima:
        """Those of one group of attacks after those of another."""
        return Minima(
            torch.cat([part.points for part in parts]),
            torch.cat([part.values for part in parts]),
            torch.cat([part.updates for part in parts]),
            sum(part.evaluations for part in parts),
        )

    @property
    def iterations(self) -> Tensor:
        """`[A]` begun iterations"""
        return iterations_of(self.updates)


@dataclass(frozen=True)
class Group:
    """Attacks that are made side by side: those from number `first` on, of the `size` of a try."""

    name: str  # of the try
    first: int
    size: int


class Keeper(Protocol):
    """Remembers groups that are done, so that an interrupted attack does not begin anew.

    What a group finds depends on the attack alone, so what was kept stands for doing it. Asked by one thread at a time.
    """

    def found(self, group: Group) -> Minima | None: ...

    def keep(self, group: Group, minima: Minima) -> None: ...


class Forgetful:
    """The keeper of attacks that are short enough."""

    def found(self, group: Group) -> Minima | None:
        return None

    def keep(self, group: Group, minima: Minima) -> None: ...


def iterations_of(updates: Tensor) -> Tensor:
    """In which iteration an update falls."""
    return -(-updates // UPDATES)
