"""How far the dummy data's gradient is from the stolen one; no scale of the model's enters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedveil.core.checks import one_of

TINY = 1e-20


@dataclass(frozen=True)
class Target:
    """What V attacks are to match: `stolen` `[V, P]`, its layers, and where it was `shared` (None: everywhere)."""

    stolen: Tensor
    layers: tuple[slice, ...]
    lengths: Tensor  # [V, M] of the layers
    shared: Tensor | None = None

    @staticmethod
    def of(stolen: Tensor, layers: Sequence[slice], shared: Tensor | None = None) -> Target:
        lengths = torch.stack([stolen[:, layer].norm(dim=1) for layer in layers], dim=1)
        return Target(stolen, tuple(layers), lengths, shared)

    def rows(self, rows: Tensor | slice) -> Target:
        """The same for some of the attacks."""
        shared = None if self.shared is None else self.shared[rows]
        return Target(self.stolen[rows], self.layers, self.lengths[rows], shared)


@dataclass(frozen=True)
class SquaredL2:
    """‖predicted − stolen‖² / ‖stolen‖², of the whole (`flat`) or the mean over the layers (`layer`).

    The last layer's gradient is by far the largest and says least about a record: with every layer counted alike,
    the same attack needs a fraction of the iterations.
    """

    kind: ClassVar[str] = "l2"
    by: str = "flat"

    def __post_init__(self) -> None:
        one_of("by", self.by, ("flat", "layer"))

    def scales(self, target: Target) -> Tensor:
        """`[V, M]` by which each layer's squared error is multiplied."""
        squares = target.lengths.square()
        if self.by == "flat":
            return (1 / squares.sum(dim=1, keepdim=True).clamp_min(TINY)).expand_as(squares)
        counted = squares > TINY
        shares = counted.sum(dim=1, keepdim=True).clamp_min(1)
        return torch.where(counted, 1 / (squares.clamp_min(TINY) * shares), 0.0)

    def between(self, predicted: Tensor, target: Target) -> Tensor:
        """`[V]`"""
        distances: Tensor = _LayerSquares.apply(predicted, target, self.scales(target))  # type: ignore[no-untyped-call]
        return distances


@dataclass(frozen=True)
class Cosine:
    """1 − cosine of the angle between them: only the direction counts (Geiping et al., 2020)."""

    kind: ClassVar[str] = "cosine"

    def scales(self, target: Target) -> Tensor:
        return (1 / target.lengths.square().sum(dim=1, keepdim=True).clamp_min(TINY)).expand_as(target.lengths)

    def between(self, predicted: Tensor, target: Target) -> Tensor:
        shared = predicted if target.shared is None else predicted * target.shared
        return 1 - torch.cosine_similarity(shared, target.stolen, dim=1, eps=TINY)


Distance = SquaredL2 | Cosine


class _LayerSquares(torch.autograd.Function):
    """Σ over layers of scale · ‖error‖², in as few passes over `[V, P]` as there can be."""

    @staticmethod
    def forward(context: Any, predicted: Tensor, target: Target, scales: Tensor) -> Tensor:
        error = predicted - target.stolen
        if target.shared is not None:
            error *= target.shared
        lengths = [torch.linalg.vector_norm(error[:, layer], dim=1) for layer in target.layers]
        context.error, context.layers, context.scales = error, target.layers, scales
        return (torch.stack(lengths, dim=1).square() * scales).sum(dim=1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, slope: Tensor) -> tuple[Tensor, None, None]:
        factors, error = 2 * context.scales * slope[:, None], context.error
        slopes = torch.empty_like(error)
        for m, layer in enumerate(context.layers):
            torch.mul(error[:, layer], factors[:, m, None], out=slopes[:, layer])
        return slopes, None, None
