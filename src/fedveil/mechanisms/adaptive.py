"""Clipping bounds that follow the norms of what is clipped.

Reading norms costs privacy. Two of the rules here add noise and declare it: every contribution sends a *report* of its
norm beside itself, and the noisy sum of the reports moves the bound for the next round. The third reads the norms
without noise, as Geyer et al. do, and declares that (`leaks_bound`).

A report is a count, which no clip can shrink. So its noise is drawn a few millionths wider than σ (`std`), which pays
for rounding it to the grid of the noise.

A report's noise sits where the noise of the mechanism sits: on the client for noise on uploads, so that the server
sees nothing without it, and on the sum for noise at the server.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedveil.core.checks import FieldError, count, positive, within
from fedveil.core.deferred import torch

if TYPE_CHECKING:
    from torch import Tensor

LEAST_BOUND, MOST_BOUND = 1e-9, 1e9
"""Where an adaptive bound stays, so that noise never drives it out of single precision."""


@dataclass(frozen=True)
class Quantile:
    """Tracks the `target` quantile of the norms by a noisy count of those below the bound (Andrew et al. 2021).

    Report: 1[‖x‖ ≤ C] − 1/2, so that one contribution more or less changes the sum by 1/2; noise N(0, σ_b²),
    σ_b = `sigma`: a Gaussian mechanism with multiplier 2·σ_b. Update: C ← C·exp(−`rate`·(share below − target)).

    The noise of what is clipped grows so that both releases together have the multiplier z that was asked for:
    z_Δ = (z^−2 − (2σ_b)^−2)^(−1/2).
    """

    kind: ClassVar[str] = "quantile"
    start: float
    target: float = 0.5
    sigma: float = 5.0
    rate: float = 0.2

    def __post_init__(self) -> None:
        positive("start", self.start)
        positive("sigma", self.sigma)
        positive("rate", self.rate)
        if not 0 < self.target < 1:
            raise FieldError("target", f"must lie strictly between 0 and 1, not {self.target}")
        within("sigma", self.sigma, 0, 1e6)

    @property
    def width(self) -> int:
        return 1

    @property
    def std(self) -> float:
        return _widened(self.sigma, change=0.5, width=self.width)

    def reports_in(self, round: int) -> bool:
        return True

    @property
    def multiplier(self) -> float:
        return 2 * self.sigma

    def share_of(self, noise_multiplier: float) -> float:
        """z_Δ: the multiplier left for the contributions so that z holds for both releases."""
        inverse = noise_multiplier**-2 - self.multiplier**-2
        if not inverse > 0:
            raise FieldError(
                "sigma", f"of the counts must be above {noise_multiplier / 2:g}, half the noise multiplier"
            )
        return float(inverse**-0.5)

    def report(self, lengths: Tensor, bound: float) -> Tensor:
        """`[K, 1]` from the norms `[K]`."""
        return (lengths <= bound).to(torch.float64).sub_(0.5).unsqueeze(-1)

    def next(self, bound: float, total: Tensor, contributions: float) -> float:
        """The bound after a round, from the noisy sum of the reports and the declared number of contributions."""
        share = float(total[0]) / contributions + 0.5
        return _kept(bound * math.exp(min(max(-self.rate * (share - self.target), -50.0), 50.0)))


@dataclass(frozen=True)
class Histogram:
    """Sets the bound to the median of a noisy histogram of norms, renewed every `every` rounds.

    Bins lie in powers of two: up to 2^`lowest`, then doubling up to 2^`highest`, then everything above. Report: one
    1 in the bin of the norm, so one contribution more or less changes the histogram by 1 (L2); noise N(0, σ²) in
    every bin: a Gaussian mechanism with multiplier σ = `sigma`, its own event in the rounds that renew the bound.

    The next bound is the geometric middle of the bin that holds the median; a tenth of `start` in the lowest bin, ten
    times `start` in the highest, which have no middle.
    """

    kind: ClassVar[str] = "histogram"
    start: float
    sigma: float = 8.0
    every: int = 1000
    lowest: int = -10
    highest: int = 3

    def __post_init__(self) -> None:
        positive("start", self.start)
        positive("sigma", self.sigma)
        within("sigma", self.sigma, 0, 1e6)
        count("every", self.every)
        if not -40 <= self.lowest < self.highest <= 40:
            raise FieldError(
                "lowest", f"and highest must rise and lie within -40 and 40, not {self.lowest}, {self.highest}"
            )

    @property
    def width(self) -> int:
        return self.highest - self.lowest + 2

    @property
    def std(self) -> float:
        return _widened(self.sigma, change=1.0, width=self.width)

    def reports_in(self, round: int) -> bool:
        """The first round looks as well: nobody knows the norms before."""
        return round % self.every == 0

    @property
    def multiplier(self) -> float:
        return self.sigma

    def share_of(self, noise_multiplier: float) -> float:
        """The histogram is paid for by itself, so contributions keep their multiplier."""
        return noise_multiplier

    def report(self, lengths: Tensor, bound: float) -> Tensor:
        """`[K, bins]` from the norms `[K]`; a norm that is not finite counts as very large."""
        edges = torch.tensor([2.0**power for power in range(self.lowest, self.highest + 1)], device=lengths.device)
        bins = torch.bucketize(torch.nan_to_num(lengths, nan=math.inf), edges)
        return torch.nn.functional.one_hot(bins, self.width).to(torch.float64)

    def next(self, bound: float, total: Tensor, contributions: float) -> float:
        counts = total.clamp_min(0.0)
        if float(counts.sum()) <= 0:  # nothing but noise: stay
            return bound
        running = torch.cumsum(counts, dim=0)
        median = int(torch.argmax((running >= running[-1] / 2).to(torch.int8)))
        if median == 0:
            return _kept(self.start / 10)
        if median == self.width - 1:
            return _kept(self.start * 10)
        return _kept(2.0 ** (self.lowest + median - 0.5))


@dataclass(frozen=True)
class CohortMedian:
    """The median of the norms of this very round's contributions (Geyer et al. 2017).

    NOT private: the bound is a function of the norms, and the paper leaves that out of its accounting. The accountant
    adds the caveat to every cell, and under `strict` promises nothing.
    """

    kind: ClassVar[str] = "median"

    def of(self, lengths: Tensor) -> float:
        """S of the round; the lower of the two middle ones for an even number."""
        finite = lengths[torch.isfinite(lengths)]
        return _kept(float(finite.median())) if len(finite) else 1.0


Reported = Quantile | Histogram
Adaptive = Reported | CohortMedian


def _kept(bound: float) -> float:
    return min(max(bound, LEAST_BOUND), MOST_BOUND)


def _widened(sigma: float, change: float, width: int) -> float:
    """The noise on reports of `width` numbers that one contribution changes by `change` in L2, after rounding too.

    A grid of width g adds at most g·sqrt(width) to the change, so (change + g·sqrt(width))/std ≤ change/σ.
    """
    rounding = sigma * math.sqrt(width) * 2.0**-24 * (1 + 2.0**-10) / change
    return sigma / (1 - rounding)
