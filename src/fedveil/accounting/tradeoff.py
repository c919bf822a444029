"""f-differential privacy: trade-off functions between the two errors of any test, and what a federation makes of them.

A trade-off function f(α) is the least type-II error of a test of type-I error α that tells two neighbouring data sets
apart; larger is more private, Id(α) = 1 − α is perfect. Here a curve is a convex polygon below the true function, so
what is computed from it is a valid, slightly pessimistic guarantee. Composition goes through privacy loss
distributions: δ(ε) = max over α of 1 − f(α) − e^ε·α, and back, f(α) = max over ε of 1 − δ(ε) − e^ε·α.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from fedveil.accounting import pld
from fedveil.accounting.gaussian_privacy import gaussian_delta, gaussian_epsilon, log_gaussian_delta
from fedveil.accounting.losses import Direction, Floats, Losses, from_divergences
from fedveil.core.checks import check_delta, check_epsilon
from fedveil.core.errors import FedveilError

LARGEST_LOSS = 60.0
"""Curves hold likelihood ratios from e^−60 to e^60."""


@dataclass(frozen=True, eq=False)
class Curve:
    """The convex polygon through (levels, errors): a trade-off function."""

    levels: Floats
    errors: Floats

    def __call__(self, level: float | Floats) -> Floats:
        return np.asarray(np.interp(level, self.levels, self.errors), dtype=np.float64)

    def inverse(self) -> Curve:
        """f^−1(α): the same test with the data sets exchanged."""
        levels = np.concatenate(([0.0], self.errors[::-1], [1.0]))
        errors = np.concatenate(([1.0], self.levels[::-1], [0.0]))
        if self.errors[0] < 1:  # f^−1(α) = 0 from f(0) on
            keep = levels <= self.errors[0]
            levels, errors = levels[keep], errors[keep]
            levels, errors = np.append(levels, 1.0), np.append(errors, 0.0)
        return convex(levels, errors)


def convex(levels: Floats, errors: Floats) -> Curve:
    """The largest convex function below the points: f** of the paper, by the lower hull."""
    order = np.lexsort((errors, levels))
    points = np.stack((levels[order], np.clip(errors[order], 0.0, 1.0)), axis=1)
    hull: list[tuple[float, float]] = []
    for x, y in points:
        if hull and x == hull[-1][0]:
            continue
        while len(hull) > 1:
            (x1, y1), (x2, y2) = hull[-2], hull[-1]
            if (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1) > 0:
                break
            hull.pop()
        hull.append((float(x), float(y)))
    corners = np.array(hull)
    return Curve(corners[:, 0], np.minimum.accumulate(corners[:, 1]))


def identity() -> Curve:
    """Id(α) = 1 − α: nothing can be told."""
    return Curve(np.array([0.0, 1.0]), np.array([1.0, 0.0]))


def gaussian(mean: float) -> Curve:
    """G_μ(α) = Φ(Φ^−1(1 − α) − μ), as the envelope of its tangents, which lies below it."""
    if not 0 <= mean < math.inf:
        raise FedveilError(f"μ: must be a number that is not negative, not {mean}")
    if mean == 0:
        return identity()
    epsilons = np.linspace(0, min(mean * mean / 2 + 9 * mean, LARGEST_LOSS), 2001)
    deltas = np.clip(_gaussian_deltas(mean, epsilons), 0.0, 1.0)
    return _from_divergences(deltas, deltas, epsilons)


def _gaussian_deltas(mean: float, epsilons: Floats) -> Floats:
    deltas: Floats = ndtr(mean / 2 - epsilons / mean) - np.exp(epsilons) * ndtr(-mean / 2 - epsilons / mean)
    return deltas


def _from_divergences(remove: Floats, add: Floats, epsilons: Floats) -> Curve:
    """The polygon below f that δ(ε) of both directions give at finitely many ε ≥ 0.

    f(α) ≥ 1 − δ_remove(ε) − e^ε·α and f(α) ≥ e^(−ε)·(1 − δ_add(ε) − α); the second form spares the first one's
    cancellation at negative ε.
    """
    slopes = np.concatenate((np.exp(-epsilons[::-1]), np.exp(epsilons)))
    heights = np.concatenate((np.exp(-epsilons[::-1]) * (1 - add[::-1]), 1 - remove))
    # Lines no higher than a flatter one never show; without them the polygon is still a lower bound.
    kept = heights > np.concatenate(([0.0], np.maximum.accumulate(heights)[:-1]))
    heights, slopes = heights[kept], slopes[kept]
    if len(heights) == 0:
        return Curve(np.array([0.0, 1.0]), np.array([0.0, 0.0]))
    distinct = np.append(np.diff(slopes) > 0, True)
    heights, slopes = heights[distinct], slopes[distinct]
    crossings = np.diff(heights) / np.diff(slopes)
    levels = np.concatenate(([0.0], crossings[::-1], [heights[0] / slopes[0], 1.0]))
    errors = np.concatenate(([heights[-1]], (heights[:-1] - slopes[:-1] * crossings)[::-1], [0.0, 0.0]))
    inside = (levels >= 0) & (levels <= 1)
    return convex(levels[inside], np.minimum(errors[inside], 1 - levels[inside]))


def subsampled(curve: Curve, rate: float) -> Curve:
    """C_p(f) = min(f_p, f_p^−1)** with f_p = p·f + (1 − p)·Id: sampling with probability p, in both directions."""
    partial = mixed(curve, rate)
    levels = np.union1d(partial.levels, partial.inverse().levels)
    return convex(levels, np.minimum(partial(levels), partial.inverse()(levels)))


def mixed(curve: Curve, rate: float) -> Curve:
    """f_p = p·f + (1 − p)·Id, one direction of C_p(f) (the paper's Figure 4 draws it beside its inverse)."""
    if not 0 < rate <= 1:
        raise FedveilError(f"sampling rate: must be above 0 and at most 1, not {rate}")
    return Curve(curve.levels, rate * curve.errors + (1 - rate) * (1 - curve.levels))


def at_least(curve: Curve, distance: float) -> Curve:
    """max(f, 1 − α − d): what else is known is that the two differ by at most d in total variation."""
    if not 0 <= distance <= 1:
        raise FedveilError(f"total variation: must lie between 0 and 1, not {distance}")
    levels = np.union1d(curve.levels, np.clip(1 - distance, 0, 1))
    gaps = curve(levels) - (1 - levels - distance)
    crossings = [
        levels[i] + (levels[i + 1] - levels[i]) * gaps[i] / (gaps[i] - gaps[i + 1])
        for i in np.flatnonzero(gaps[:-1] * gaps[1:] < 0)
    ]
    levels = np.union1d(levels, np.array(crossings))
    return Curve(levels, np.maximum(curve(levels), np.clip(1 - levels - distance, 0.0, 1.0)))


def curve_delta(curve: Curve, epsilons: Floats) -> Floats:
    """δ(ε) = max over α of 1 − f(α) − e^ε·α, exact for a polygon, for any real ε."""
    deltas = np.empty_like(epsilons)
    for part in np.array_split(np.arange(len(epsilons)), max(1, len(epsilons) // 1000)):
        slopes = np.exp(epsilons[part])[:, None]
        deltas[part] = np.max(1 - curve.errors - slopes * curve.levels, axis=1)
    return np.clip(deltas, 0.0, 1.0)


def to_pld(curve: Curve, interval: float = 1e-3) -> Losses:
    """A privacy loss distribution that dominates the curve, in both directions."""
    return Losses(_one_way(curve, interval), _one_way(curve.inverse(), interval))


def _one_way(curve: Curve, interval: float) -> Direction:
    widths, drops = np.diff(curve.levels), -np.diff(curve.errors)
    ratios = drops[(widths > 0) & (drops > 0)] / widths[(widths > 0) & (drops > 0)]
    highest = min(LARGEST_LOSS, math.log(max(float(ratios.max()), 1.0)) + interval)
    lowest = max(-LARGEST_LOSS, math.log(min(float(ratios.min()), 1.0)) - interval)
    low, high = math.floor(lowest / interval), math.ceil(highest / interval)
    deltas = curve_delta(curve, np.arange(low, high + 1, dtype=np.float64) * interval)
    return from_divergences(interval, low, deltas)


def from_pld(distribution: Losses) -> Curve:
    """The curve of a privacy loss distribution: the lower of its two directions, made convex."""
    remove, add = pld.both_directions(distribution)
    highest = min(LARGEST_LOSS, max(float(remove.losses[-1]), float(add.losses[-1]), 0.0) + remove.interval)
    epsilons = np.linspace(0, highest, 4001)
    curve = _from_divergences(remove.deltas(epsilons), add.deltas(epsilons), epsilons)
    levels = np.union1d(curve.levels, curve.inverse().levels)
    return convex(levels, np.minimum(curve(levels), curve.inverse()(levels)))


def composed(curve: Curve, times: int, interval: float = 1e-3) -> Curve:
    """f ⊗ … ⊗ f, numerically."""
    if times < 1:
        raise FedveilError(f"composition: {times} times")
    return curve if times == 1 else from_pld(pld.composed_of([(to_pld(curve, interval), times)]))


def weak_as_stated(local: Curve, rate: float, rounds: int, interval: float = 1e-3) -> Curve:
    """PriFedSync, Theorem 1: max(f_j, 1 − α − p²)^⊗R, one client against one other.

    It counts a round as harmless to client j where the other client sat it out, although the models that the other
    receives later carry that round on. `weak_that_holds` does not.
    """
    return composed(at_least(local, rate**2), rounds, interval)


def strong_as_stated(local: Curve, rate: float, rounds: int, clients: int, interval: float = 1e-3) -> Curve:
    """PriFedSync, Theorem 1: max(f_j, 1 − α − p²)^⊗((m−1)·R), one client against all others together."""
    return composed(at_least(local, rate**2), rounds * max(clients - 1, 1), interval)


def weak_that_holds(local: Curve, rate: float, rounds: int, interval: float = 1e-3) -> Curve:
    """R rounds, each of which client j joins with probability p by a coin that may be guessed from the result.

    Never below max(f, 1 − α − p)^⊗R, and all that any other client holds is made from what this bounds.
    """
    drawn = pld.seen_draw(to_pld(local, interval), rate)
    return from_pld(pld.composed_of([(drawn, rounds)]))


def strong_that_holds(local: Curve, rounds: int, interval: float = 1e-3) -> Curve:
    """f_j^⊗R: whatever the others hold together is post-processing of what client j sent, in R rounds at most."""
    return composed(local, rounds, interval)


def epsilon_of_mean(mean: float, delta: float) -> float:
    """μ-GDP → ε(δ), exactly."""
    check_delta(delta)
    if not 0 <= mean < math.inf:
        raise FedveilError(f"μ: must be a number that is not negative, not {mean}")
    return gaussian_epsilon(1 / mean, delta) if mean > 0 else 0.0


def delta_of_mean(mean: float, epsilon: float) -> float:
    """μ-GDP → δ(ε), exactly."""
    check_epsilon(epsilon)
    if not 0 <= mean < math.inf:
        raise FedveilError(f"μ: must be a number that is not negative, not {mean}")
    return gaussian_delta(1 / mean, epsilon) if mean > 0 else 0.0


def mean_of_epsilon(epsilon: float, delta: float) -> float:
    """The largest μ whose Gaussian is (ε, δ)-private; the converse does not hold, (ε, δ) alone implies no μ."""
    check_epsilon(epsilon)
    check_delta(delta)
    wanted = math.log(delta)
    low, high = 0.0, 1.0
    while log_gaussian_delta(high, epsilon) <= wanted:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        if log_gaussian_delta(middle, epsilon) <= wanted:
            low = middle
        else:
            high = middle
    return low
