"""Bounding the sensitivity: no row's L2 norm passes the clip."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedveil.core.checks import one_of
from fedveil.mechanisms.schedules import Schedule, schedule


@dataclass(frozen=True)
class Clip:
    """Scales a row down to L2 norm `bound` where it is longer: the whole row (`flat`) or each layer by itself.

    Sensitivity: flat, S = C. Per layer over M layers, S = sqrt(C² + … + C²) = C·sqrt(M).
    A row with a NaN or infinite norm is replaced by zero, so it cannot pass.
    """

    bound: Schedule
    by: str = "flat"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", schedule(self.bound))
        one_of("by", self.by, ("flat", "layer"))

    def at(self, round: int, rounds: int) -> float:
        """C_t"""
        return self.bound.at(round, rounds)

    def sensitivity(self, bound: float, layers: int) -> float:
        """S for rows of `layers` layers clipped at `bound`."""
        return bound * math.sqrt(layers) if self.by == "layer" else bound

    def factors(self, norms: Tensor, bound: float) -> Tensor:
        """min(1, C/‖row‖) for norms `[..., M]` of a row's layers; 0 for the whole row where any is not finite."""
        finite = torch.isfinite(norms).all(dim=-1, keepdim=True)
        if self.by == "flat":
            length = norms.square().sum(dim=-1, keepdim=True).sqrt()
            factor = (bound / length.clamp_min(bound)).expand_as(norms)
        else:
            factor = bound / norms.clamp_min(bound)
        return torch.where(finite, factor, torch.zeros((), dtype=norms.dtype))
