"""The privacy loss of one noisy sum, put on a grid.

Every outcome's mass goes to the two grid points around its loss, so that the masses of P and of Q are both kept
("connecting the dots", Doroshenko et al. 2022). All terms are positive and integrated by quadrature, so each mass is
right to about 1e-13 of itself, however small it is; 1e-12 is added.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp, ndtr

from fedveil.accounting.losses import Direction, Floats, Losses, exchanged

REACH = 10.5
"""Outcomes farther out than so many standard deviations count as an infinite loss; they have a mass of 4e-26."""
WIDEST = 0.25
"""Quadrature goes over pieces of at most so many standard deviations."""
RAISED = 1 + 1e-12
NUDGED = 1e-9
"""Of an interval: how far up losses are rounded beyond their place, to cover the rounding of that place."""
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(8)

Shifts = tuple[tuple[float, float], ...]
"""(weight, mean) of the Gaussians of a mixture."""
NO_SHIFT: Shifts = ((1.0, 0.0),)


def plain_gaussian(noise_multiplier: float, interval: float) -> Losses:
    """N(1, z²) against N(0, z²)."""
    remove, _ = _on_grid(_Pair(((1.0, 1.0),), NO_SHIFT, noise_multiplier), interval)
    return Losses(remove, remove)


def poisson_sampled(noise_multiplier: float, rate: float, interval: float) -> Losses:
    """(1 − q)·N(0, z²) + q·N(1, z²) against N(0, z²)."""
    if rate == 1:
        return plain_gaussian(noise_multiplier, interval)
    return Losses(*_on_grid(_Pair(((1 - rate, 0.0), (rate, 1.0)), NO_SHIFT, noise_multiplier), interval))


def sampled_group(weights: tuple[float, ...], noise_multiplier: float, interval: float) -> Losses:
    """Σ_k weights[k]·N(k, z²) against N(0, z²): k units are in the sum together with probability `weights[k]`.

    Given k, the sum moves by a vector of length at most k, and collinear ones of full length are the worst
    (Choquette-Choo et al. 2024, "Privacy amplification for matrix mechanisms", on mixtures of Gaussians).
    """
    shifts = tuple((weight, float(k)) for k, weight in enumerate(weights) if weight > 0)
    return Losses(*_on_grid(_Pair(shifts, NO_SHIFT, noise_multiplier), interval))


def fixed_size(noise_multiplier: float, rate: float, interval: float) -> Losses:
    """A uniform subset of fixed size, a share q of all, when one unit is exchanged for another.

    With Gaussians P and Q whose means are 2S apart, its divergences for ε ≥ 0 are at most H((1−q)Q + qP ‖ Q) (Dong,
    Roth and Su 2022, Theorem 4.2; Zhu, Dong and Wang 2022, Theorem 11), those of Poisson sampling when the unit is
    removed.
    """
    if rate == 1:
        return plain_gaussian(noise_multiplier, interval)
    return exchanged(poisson_sampled(noise_multiplier, rate, interval).remove)


def hidden_record(noise_multiplier: float, rate: float, interval: float) -> Losses:
    """One record of a client whom a hidden coin of probability p brings into a noisy sum of whole clients.

    z is relative to the whole client's S. With the client drawn the sum is P = N(x, z²) or, the record exchanged,
    Q = N(x', z²), where |x|, |x'| ≤ 1; else it is Z = N(0, z²). The pair (1−p)Z + pP against (1−p)Z + pQ has, with
    α' = e^ε ≥ 1, H = p·∫(P − a·Z − b·Q)⁺ for a = (α'−1)(1−p)/p and b = α'. The worst x' is opposite to x: a reflection
    in a plane through 0 that has x and x' on the same side leaves Z as it is, and of two mirror points the one on that
    side has the larger density of P and of Q. Exchanging Q's two values there makes the larger difference larger and
    the smaller one smaller with the same sum, so their positive parts add up to no less. On a line the set where
    P > a·Z + b·Q is a half-line, whose P − a·Z − b·Q grows with |x| and with |x'|. So x = 1, x' = −1 attains the
    supremum at every ε ≥ 0, and the pair is its own mirror image, which gives ε < 0.
    """
    absent: Shifts = ((1 - rate, 0.0),) if rate < 1 else ()
    remove, _ = _on_grid(_Pair((*absent, (rate, 1.0)), (*absent, (rate, -1.0)), noise_multiplier), interval)
    return Losses(remove, remove)


class _Pair:
    """P and Q, mixtures of N(mean, z²) whose losses log(P/Q) grow with the outcome: P's means lie above Q's."""

    def __init__(self, upper: Shifts, lower: Shifts, noise_multiplier: float) -> None:
        self.noise = noise_multiplier
        self._upper, self._lower = upper, lower
        means = [mean for _, mean in (*upper, *lower)]
        self.low, self.high = min(means) - REACH * noise_multiplier, max(means) + REACH * noise_multiplier

    def logs(self, x: Floats) -> tuple[Floats, Floats]:
        """log P and log Q, relative to N(0, z²)."""
        return _relative(self._upper, x, self.noise), _relative(self._lower, x, self.noise)

    def losses(self, x: Floats) -> Floats:
        above, below = self.logs(x)
        return above - below

    def places(self, losses: Floats) -> Floats:
        """The outcomes that have these losses: interpolated, then Newton's steps, which need not be exact."""
        variance = self.noise**2
        if self._lower == NO_SHIFT and len(self._upper) == 1:
            return np.clip(losses * variance + 0.5, self.low, self.high)
        if self._lower == NO_SHIFT and len(self._upper) == 2 and self._upper[1][1] == 1:
            rate = self._upper[1][0]
            inside = np.maximum(np.expm1(losses) / rate + 1, 1e-300)
            return np.clip(variance * np.log(inside) + 0.5, self.low, self.high)
        outcomes = np.linspace(self.low, self.high, 20_001)
        near = np.interp(losses, self.losses(outcomes), outcomes)
        for _ in range(4):
            slope = (self.losses(near + 1e-4 * self.noise) - self.losses(near - 1e-4 * self.noise)) / 2e-4
            move = np.clip((self.losses(near) - losses) / np.maximum(slope, 1e-12), -0.1, 0.1)
            near = np.clip(near - move * self.noise, self.low, self.high)
        return np.maximum.accumulate(near)

    def outside(self) -> tuple[float, float, float, float]:
        """P below and above what is integrated, and Q."""
        return (
            _mass(self._upper, 1, self.low, self.noise),
            _mass(self._upper, -1, self.high, self.noise),
            _mass(self._lower, 1, self.low, self.noise),
            _mass(self._lower, -1, self.high, self.noise),
        )


def _relative(shifts: Shifts, x: Floats, noise: float) -> Floats:
    if shifts == NO_SHIFT:
        return np.zeros_like(x)
    if len(shifts) == 1:
        mean = shifts[0][1]
        return np.asarray((2 * mean * x - mean**2) / (2 * noise**2))
    if len(shifts) == 2 and shifts[0][1] == 0:
        weight, mean = shifts[1]
        exponents = np.minimum((2 * mean * x - mean**2) / (2 * noise**2), 700.0)
        return np.asarray(np.log1p(weight * np.expm1(exponents)))
    means = np.array([mean for _, mean in shifts])
    exponents = (2 * np.outer(x, means) - means**2) / (2 * noise**2)
    return np.asarray(logsumexp(exponents, axis=1, b=np.array([weight for weight, _ in shifts])))


def _mass(shifts: Shifts, side: int, end: float, noise: float) -> float:
    return float(sum(weight * ndtr(side * (end - mean) / noise) for weight, mean in shifts))


def _on_grid(pair: _Pair, interval: float) -> tuple[Direction, Direction]:
    """P against Q, and Q against P."""
    ends = pair.losses(np.array([pair.low, pair.high]))
    first = math.floor(ends[0] / interval)
    last = max(math.ceil(ends[1] / interval), first + 1)
    inner = pair.places(np.arange(first + 1, last, dtype=np.float64) * interval)
    edges = np.concatenate(([pair.low], inner, [pair.high]))
    buckets = last - first
    pieces = np.maximum(np.ceil(np.diff(edges) / (WIDEST * pair.noise)), 1.0).astype(np.int64)
    bucket = np.repeat(np.arange(buckets), pieces)
    part = np.arange(len(bucket)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    width = (np.diff(edges) / pieces)[bucket]
    start = edges[bucket] + part * width
    floor = (first + bucket) * interval
    remove, add = np.zeros(buckets + 1), np.zeros(buckets + 1)
    scale = -math.expm1(-interval)
    for point, weight in zip(_POINTS, _WEIGHTS, strict=True):
        x = start + width * (point + 1) / 2
        above, below = pair.logs(x)
        over = np.clip(above - below - floor, 0.0, interval)
        with np.errstate(divide="ignore"):
            base = np.log(width * (weight / 2 / (pair.noise * math.sqrt(2 * math.pi)))) - 0.5 * (x / pair.noise) ** 2
        present, absent = np.exp(base + above), np.exp(base + below)
        up = np.minimum(-np.expm1(-over) / scale + NUDGED, 1.0)
        down = np.minimum(-np.expm1(over - interval) / scale + NUDGED, 1.0)
        remove[:-1] += np.bincount(bucket, present * (1 - up), buckets)
        remove[1:] += np.bincount(bucket, present * up, buckets)
        add[:-1] += np.bincount(bucket, absent * down, buckets)
        add[1:] += np.bincount(bucket, absent * (1 - down), buckets)
    upper_below, upper_above, lower_below, lower_above = pair.outside()
    remove[1] += upper_below
    add[-2] += lower_above
    return (
        Direction(first, interval, remove * RAISED, upper_above * RAISED),
        Direction(-last, interval, add[::-1] * RAISED, lower_below * RAISED),
    )
