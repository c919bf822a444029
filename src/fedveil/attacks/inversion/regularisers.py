"""What the adversary believes about records before it has seen anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedveil.core.checks import not_negative

ROUND_TIP = 0.01
"""Differences of pixels below this count as squares."""


@dataclass(frozen=True)
class NoRegulariser:
    """Every record is as good as any other."""

    kind: ClassVar[str] = "none"

    def of(self, inputs: Tensor) -> Tensor:
        """`[V]` for records `[V, n, *shape]`."""
        return torch.zeros(len(inputs))


@dataclass(frozen=True)
class TotalVariation:
    """Neighbouring pixels are alike: `weight` × the mean of their absolute differences. For pictures only."""

    kind: ClassVar[str] = "total-variation"
    weight: float = 1e-4

    def __post_init__(self) -> None:
        not_negative("weight", self.weight)

    def of(self, inputs: Tensor) -> Tensor:
        if inputs.ndim < 4:
            return torch.zeros(len(inputs))
        down = _rounded(inputs[..., 1:, :] - inputs[..., :-1, :]).flatten(1).mean(dim=1)
        across = _rounded(inputs[..., 1:] - inputs[..., :-1]).flatten(1).mean(dim=1)
        return self.weight * (down + across)


def _rounded(differences: Tensor) -> Tensor:
    """Absolute values with a round tip, so that quasi-Newton steps don't stall at it."""
    rounded: Tensor = (differences.square() + ROUND_TIP**2).sqrt() - ROUND_TIP
    return rounded


@dataclass(frozen=True)
class SquaredNorm:
    """Values lie about `centre`: `weight` × the mean squared distance from it."""

    kind: ClassVar[str] = "l2"
    weight: float = 1e-4
    centre: float = 0.5

    def __post_init__(self) -> None:
        not_negative("weight", self.weight)

    def of(self, inputs: Tensor) -> Tensor:
        return self.weight * (inputs - self.centre).square().flatten(1).mean(dim=1)


Regulariser = NoRegulariser | TotalVariation | SquaredNorm
