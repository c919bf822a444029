"""The Gaussian mechanism: clip, sum, add noise. What it does and what it declares come from the same fields."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from fedveil.core.checks import not_negative, one_of, within
from fedveil.core.streams import Address, Purpose
from fedveil.core.types import Declaration, Sampling, Unit
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.noise import NoiseSource


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Adds Gaussian noise of standard deviation σ·C per coordinate to clipped rows or to their sum.

    Guarantee: one step is a Gaussian mechanism with noise multiplier z = sum_std / S for one row added to or removed
    from the sum, where S is the clip's sensitivity (`Clip.sensitivity`) and sum_std is

    - `noise="sum"`: σ·C, one draw on the sum; no single row is protected by itself (`on_device` sees it clean);
    - `noise="row"`: σ·C·sqrt(B), because each of the declared B rows carries N(0, σ²C²) (Fed-CDP, Algorithm 2,
      line 14). Where nobody looks at single rows the sum's noise is drawn once, which has the same distribution.

    B is the *declared* batch size, a public constant; the realised number of rows enters nowhere. σ = 0 clips only
    and guarantees nothing.
    """

    clip: Clip
    sigma: float
    noise: str = "sum"
    unit: Unit = Unit.RECORD

    def __post_init__(self) -> None:
        not_negative("sigma", self.sigma)
        within("sigma", self.sigma, 0, 1e6)
        one_of("noise", self.noise, ("row", "sum"))

    def row_std(self, bound: float) -> float:
        """Noise on one row as the `on_device` view sees it."""
        return self.sigma * bound if self.noise == "row" else 0.0

    def sum_std(self, bound: float, batch: int) -> float:
        """Noise on the sum of a batch of declared size `batch`."""
        return self.sigma * bound * (math.sqrt(batch) if self.noise == "row" else 1.0)

    def declare(self, *, place: str, bound: float, layers: int, steps: int, sampling: Sampling) -> Declaration:
        """What `steps` steps at clipping bound `bound` do to one client."""
        return Declaration(
            place=place,
            unit=self.unit,
            steps=steps,
            bound=bound,
            sensitivity=self.clip.sensitivity(bound, layers),
            sum_std=self.sum_std(bound, sampling.batch),
            row_std=self.row_std(bound),
            sampling=sampling,
        )

    def add_to_sums(
        self, sums: Tensor, *, bound: float, batch: int, source: NoiseSource, addresses: list[Address]
    ) -> None:
        """Noise the sums `[K, P]` in place; row `k` draws from the stream at `addresses[k]`."""
        if self.sigma > 0:
            noise = source.standard_normal(Purpose.EXAMPLE_NOISE, addresses, sums.shape[-1])
            sums.add_(noise, alpha=self.sum_std(bound, batch))

    def add_to_rows(self, rows: Tensor, *, bound: float, source: NoiseSource, addresses: list[Address]) -> None:
        """Noise every row of `[K, B, P]` by itself, in place: `row` noise when somebody looks at the rows."""
        if self.sigma > 0:
            count, batch, size = rows.shape
            noise = source.standard_normal(Purpose.ROW_NOISE, addresses, batch * size)
            rows.add_(noise.view(count, batch, size), alpha=self.row_std(bound))
