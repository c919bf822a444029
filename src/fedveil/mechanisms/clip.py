"""Bounding the sensitivity: no row's L2 norm passes the clip."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedveil.core.checks import one_of
from fedveil.core.deferred import torch
from fedveil.mechanisms.adaptive import Adaptive, CohortMedian
from fedveil.mechanisms.arithmetic import NORM_MARGIN
from fedveil.mechanisms.schedules import Schedule, schedule

if TYPE_CHECKING:
    from torch import Tensor

Bound = Schedule | Adaptive


@dataclass(frozen=True)
class Limit:
    """Factors for norms `[..., M]` of a row's layers: min(1, length/‖row‖), of the row or of each layer (`by`).

    0 for a row with a norm that is not finite.
    """

    length: float
    by: str

    def __call__(self, norms: Tensor) -> Tensor:
        limit = torch.full((), self.length, dtype=norms.dtype, device=norms.device)
        if self.by == "flat":  # a length over infinity is 0, and over what is not a number no number
            length = norms.square().sum(dim=-1, keepdim=True).sqrt()
            return (limit / length.clamp_min(limit)).nan_to_num(0.0).expand_as(norms)
        finite = torch.isfinite(norms).all(dim=-1, keepdim=True)
        return torch.where(finite, limit / norms.clamp_min(limit), 0.0)


@dataclass(frozen=True)
class Clip:
    """Scales a row down where it is longer than `bound`: the whole row (`flat`) or each layer by itself.

    The bound C_t follows a public schedule, or the norms themselves (`adaptive`).

    Sensitivity: flat, S = C. Per layer over M layers, S = sqrt(C² + … + C²) = C·sqrt(M). Rows are clipped
    a margin below C, so that S holds for what is computed, in single precision and on a grid (`arithmetic.py`).
    A row with a NaN or infinite norm is replaced by zero, so it cannot pass.
    """

    bound: Bound
    by: str = "flat"

    def __post_init__(self) -> None:
        if not isinstance(self.bound, Adaptive):
            object.__setattr__(self, "bound", schedule(self.bound))
        one_of("by", self.by, ("flat", "layer"))

    @property
    def adaptive(self) -> Adaptive | None:
        return self.bound if isinstance(self.bound, Adaptive) else None

    @property
    def start(self) -> float:
        """The bound of the first round. Where that is known only within a round: 1, the unit it is counted in."""
        if isinstance(self.bound, CohortMedian):
            return 1.0
        return self.bound.start if isinstance(self.bound, Adaptive) else self.bound.at(0, 1)

    def at(self, round: int, rounds: int, current: float | None = None) -> float:
        """C_t: by the schedule, or for an adaptive bound its `current` value (its start, if none is given)."""
        if isinstance(self.bound, Adaptive):
            return self.start if current is None else current
        return self.bound.at(round, rounds)

    def sensitivity(self, bound: float, layers: int) -> float:
        """S for rows of `layers` layers clipped at `bound`."""
        return bound * math.sqrt(layers) if self.by == "layer" else bound

    def limit(self, bound: float, margin: float = NORM_MARGIN) -> Limit:
        """What rows are clipped at: C·(1 − margin)."""
        return Limit(bound * (1 - margin), self.by)

    def factors(self, norms: Tensor, bound: float, margin: float = NORM_MARGIN) -> Tensor:
        """What rows with these norms `[..., M]` of their layers are multiplied with."""
        return self.limit(bound, margin)(norms)
