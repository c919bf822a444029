"""Distributions of the privacy loss on a grid, in both directions, always rounded against ourselves.

A direction holds, for two neighbouring outputs P and Q, how P's mass lies over log(P/Q). A discrete pair made here is
at least as easy to tell apart as the real one at *every* ε, and that survives mixtures and composition.

A direction may be tilted by θ: it then stores p·e^(θ·loss) instead of p. The rounding of a Fourier transform is
absolute, so in a tilted direction it is small beside the tail from which a tiny δ is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Direction:
    """Loss `(lower + j)·interval` with probability `masses[j]`·e^(`log_scale` − `tilt`·loss), ∞ with `infinite`."""

    lower: int
    interval: float
    masses: Floats
    infinite: float
    tilt: float = 0.0
    log_scale: float = 0.0

    @cached_property
    def losses(self) -> Floats:
        return np.arange(self.lower, self.lower + len(self.masses), dtype=np.float64) * self.interval

    @cached_property
    def probabilities(self) -> Floats:
        """The masses without the tilt."""
        if self.tilt == 0 and self.log_scale == 0:
            return self.masses
        real: Floats = self.masses * np.exp(np.clip(self.log_scale - self.tilt * self.losses, -700.0, 600.0))
        return real

    @cached_property
    def _tails(self) -> tuple[Floats, Floats]:
        """From each grid point on: the mass of the upper distribution, and of the lower one (p·e^(−loss))."""
        upper = np.append(np.cumsum(self.probabilities[::-1])[::-1], 0.0) + self.infinite
        scaled = self.probabilities * np.exp(-np.maximum(self.losses, -600.0))
        return upper, np.append(np.cumsum(scaled[::-1])[::-1], 0.0)

    def tilted(self, tilt: float) -> Direction:
        """The same distribution, stored as p·e^(tilt·loss)."""
        if tilt == self.tilt:
            return self
        exponents = (tilt - self.tilt) * self.losses
        top = float(exponents.max(where=self.masses > 0, initial=-math.inf))
        exponents = np.minimum(exponents, top)  # beyond the last mass there is nothing to scale
        return replace(self, masses=self.masses * np.exp(exponents - top), tilt=tilt, log_scale=self.log_scale + top)

    def log_moment(self, order: float) -> float:
        """log Σ p·e^(order·loss) over the finite losses."""
        held = self.masses > 0
        exponents = (order - self.tilt) * self.losses[held] + np.log(self.masses[held])
        top = float(exponents.max(initial=-math.inf))
        return self.log_scale + top + math.log(float(np.exp(exponents - top).sum())) if math.isfinite(top) else top

    def deltas(self, epsilons: Floats) -> Floats:
        """Hockey-stick divergences Σ p·(1 − e^(ε − loss))⁺ + p(∞), for any real ε."""
        upper, lower = self._tails
        first = np.searchsorted(self.losses, epsilons, side="right")
        # Beyond e^600 the subtracted part is left out, which only raises the result.
        subtracted = np.where(epsilons < 600, np.exp(np.minimum(epsilons, 600.0)) * lower[first], 0.0)
        return np.clip(upper[first] - subtracted, 0.0, 1.0)

    def hidden(self, epsilons: Floats, rounding: float) -> Floats:
        """At most how much of δ(ε) an error of `rounding` in the stored masses hides: `rounding`·e^(scale − θ·ε)."""
        if self.tilt == 0:
            return np.full_like(epsilons, rounding)
        scale: Floats = rounding * np.exp(np.clip(self.log_scale - self.tilt * epsilons, -700.0, 600.0))
        return scale

    def epsilon(self, delta: float, rounding: float = 0.0) -> float:
        """The smallest ε ≥ 0 with divergence at most δ, less what `rounding` may hide."""
        if self.infinite >= delta:
            return math.inf
        zero = np.zeros(1)
        if self.tilt == 0 and self.deltas(zero)[0] + rounding <= delta:
            return 0.0
        positive = max(0, 1 - self.lower)  # the first loss above 0
        losses = self.losses[positive:]
        if len(losses) == 0:
            return 0.0
        # The divergence at ε in [loss_(j−1), loss_j) is upper_j − e^ε·lower_j; it is `infinite` from the last loss on.
        upper, lower = (tail[positive:] for tail in self._tails)
        there = upper[1:] - np.where(losses < 600, np.exp(np.minimum(losses, 600.0)) * lower[1:], 0.0)
        above = np.flatnonzero(there + self.hidden(losses, rounding) > delta)
        place = int(above[-1]) + 1 if len(above) else 0
        if place == len(losses):
            return math.inf
        high, low = float(losses[place]), max(0.0, float(losses[place]) - self.interval)
        left = delta - float(self.hidden(np.array([low]), rounding)[0])
        if high >= 600 or lower[place] <= 0 or left <= 0:
            return high
        return min(max(math.log(max(upper[place] - left, 1e-300) / lower[place]), low), high)


@dataclass(frozen=True, eq=False)
class Losses:
    """`remove`: with the unit against without; `add`: without against with. One object where both are alike."""

    remove: Direction
    add: Direction

    @property
    def distinct(self) -> tuple[Direction, ...]:
        return (self.remove,) if self.add is self.remove else (self.remove, self.add)

    @staticmethod
    def of(directions: Sequence[Direction]) -> Losses:
        """From one direction for both, or from two."""
        return Losses(directions[0], directions[-1])


def no_loss(interval: float, tilt: float = 0.0) -> Losses:
    """Nothing was shown: loss 0."""
    nothing = Direction(0, interval, np.ones(1), 0.0, tilt)
    return Losses(nothing, nothing)


def mixture_of(cases: Sequence[tuple[float, Losses]]) -> Losses:
    """A coin that may be seen decides which case happens: H = Σ weight·H of the case, so the masses just add up."""
    if all(len(losses.distinct) == 1 for _, losses in cases):
        one = _mixed([(weight, losses.remove) for weight, losses in cases])
        return Losses(one, one)
    return Losses(
        _mixed([(weight, losses.remove) for weight, losses in cases]),
        _mixed([(weight, losses.add) for weight, losses in cases]),
    )


def _mixed(cases: Sequence[tuple[float, Direction]]) -> Direction:
    lower = min(case.lower for _, case in cases)
    upper = max(case.lower + len(case.masses) for _, case in cases)
    masses, scale = np.zeros(upper - lower), max(case.log_scale for _, case in cases)
    for weight, case in cases:
        place = case.lower - lower
        masses[place : place + len(case.masses)] += weight * math.exp(case.log_scale - scale) * case.masses
    first = cases[0][1]
    infinite = sum(weight * case.infinite for weight, case in cases)
    return Direction(lower, first.interval, masses, infinite, first.tilt, scale)


def exchanged(removed: Direction) -> Losses:
    """The pair of a relation that goes both ways, from its divergences at ε ≥ 0, those of `removed`.

    For ε < 0 they follow: H(ε) = 1 − e^ε + e^ε·H(−ε). One pair has all of them: the mass m of each loss l > 0 as it is,
    m·e^(−l) at −l, and the rest at 0. It dominates every two neighbours, so its compositions dominate theirs.
    """
    assert removed.lower <= 0
    assert removed.tilt == 0
    gains = removed.masses[1 - removed.lower :]
    mirrored = gains * np.exp(-removed.interval * np.arange(1, len(gains) + 1))
    rest = max(0.0, 1.0 - removed.infinite - float(gains.sum()) - float(mirrored.sum()))
    masses = np.concatenate((mirrored[::-1], [rest], gains))
    both = Direction(-len(gains), removed.interval, masses, removed.infinite)
    return Losses(both, both)


def from_divergences(interval: float, lower: int, deltas: Floats) -> Direction:
    """The pair whose divergences are the convex polygon, in e^ε, through bounds `deltas` at ε = (lower + j)·interval.

    A true divergence is convex in e^ε, so where it lies below bounds at some points it lies below every convex polygon
    through (a part of) these points: points that would make a dent are left out. A slope's change at a point is the
    mass of Q there, and P's is e^ε times it. What remains at the last point is an infinite loss.
    """
    places = np.arange(len(deltas))
    with np.errstate(over="ignore"):
        ratios = np.exp(np.minimum((lower + places) * interval, 700.0))
    heights = np.maximum.accumulate(deltas[::-1])[::-1]
    kept = places
    while True:
        slopes = np.diff(heights[kept]) / np.diff(ratios[kept])
        before = np.concatenate(([(heights[kept[0]] - 1) / ratios[kept[0]]], slopes))
        after = np.append(slopes, 0.0)
        dents = after < before
        dents[0] = dents[-1] = False
        if not dents.any():
            break
        kept = kept[~dents]
    masses = np.zeros(len(deltas))
    masses[kept] = np.maximum(after - before, 0.0) * ratios[kept]
    return Direction(lower, interval, masses, float(heights[-1]))
