"""How far the dummy data's gradient is from the stolen one; no scale of the model's enters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedveil.core.checks import one_of

TINY = 1e-20


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

    def weights(self, stolen: Tensor, layers: Sequence[slice]) -> Tensor:
        """`[V, P]` by which differences are multiplied."""
        parts = layers if self.by == "layer" else [slice(0, stolen.shape[1])]
        weights = torch.zeros_like(stolen)
        for part in parts:
            length = stolen[:, part].norm(dim=1, keepdim=True)
            weights[:, part] = torch.where(length > TINY, 1 / (length.clamp_min(TINY) * len(parts) ** 0.5), 0.0)
        return weights

    def between(self, predicted: Tensor, stolen: Tensor, weights: Tensor) -> Tensor:
        """`[V]`"""
        return ((predicted - stolen) * weights).square().sum(dim=1)


@dataclass(frozen=True)
class Cosine:
    """1 − cosine of the angle between them: only the direction counts (Geiping et al., 2020)."""

    kind: ClassVar[str] = "cosine"

    def weights(self, stolen: Tensor, layers: Sequence[slice]) -> Tensor:
        return torch.ones_like(stolen)

    def between(self, predicted: Tensor, stolen: Tensor, weights: Tensor) -> Tensor:
        return 1 - torch.cosine_similarity(predicted * weights, stolen * weights, dim=1, eps=TINY)


Distance = SquaredL2 | Cosine
