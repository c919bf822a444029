"""Random allocation: each record goes to one of the L steps of a round, chosen uniformly and by itself.

The pair (Chua et al. 2024, arXiv 2412.16802, adaptive steps included; Feldman and Shenfeld 2025, arXiv 2502.08202):
Q is N(0, z²) in all L steps, P shifts one step, chosen uniformly, by 1. So P/Q = (Y_1 + … + Y_L)/L with independent
Y_i = exp((2x_i − 1)/(2z²)) of mean 1 under Q. Both divergences, E_Q[(P/Q − e^ε)⁺] and E_Q[(1 − e^ε·P/Q)⁺], are convex
in that sum. Splitting each Y_i, and later the sum, onto a grid with its mean preserved raises the mean of every convex
function, so it is pessimistic in both directions, with an error of second order in the grid.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import fft
from scipy.special import ndtr, ndtri

from fedveil.accounting.discrete import plain_gaussian
from fedveil.accounting.fourier import spectrum_power
from fedveil.accounting.losses import Direction, Floats, Losses

POINTS_PER_RATIO = 50
"""Grid points per standard deviation of one Y."""
LARGEST_SUM = 1 << 22
"""Points of the sum's grid; a coarser grid is pessimistic, no more."""
LARGEST_RATIO = 16.0
"""Of P/Q: Q against P falls with it, so there larger ones may count as this."""
LEFT_OUT = 1e-16
"""Mass of each tail of a Y, and of the sum, that is charged as an infinite loss."""
TAIL = 18.0
"""Minus the logarithm of the tail around which sums are computed once more, by tilted laws."""
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(8)


@lru_cache(maxsize=32)
def allocated(steps: int, noise_multiplier: float, interval: float) -> Losses:
    """The PLD of one round of `steps` steps. Each direction has its own grid of sums, fine where its loss is large."""
    spread = 1 / noise_multiplier
    if steps == 1 or spread > 2.5:  # with so little noise, that of a step that is known
        return plain_gaussian(noise_multiplier, interval)
    usual = math.sqrt(math.expm1(spread**2)) / POINTS_PER_RATIO
    largest = math.exp(spread**2 / 2 - spread * float(ndtri(LEFT_OUT)))
    remove = _present(steps, spread, max(usual, largest * steps / LARGEST_SUM), largest, interval)
    capped = min(largest, LARGEST_RATIO * steps)
    deviations = math.sqrt(steps * math.expm1(spread**2))
    smallest = max(steps - 6 * deviations, steps * math.exp(-(spread**2) / 2 - 5.5 * spread))
    fine = max(min(usual, smallest / POINTS_PER_RATIO), capped * steps / LARGEST_SUM)
    return Losses(remove, _absent(steps, spread, fine, capped, interval))


def _present(steps: int, spread: float, cell: float, largest: float, interval: float) -> Direction:
    """P against Q. P has one Y weighted with its size, so its masses are a convolution as well.

    Multiplying Q's masses with their ratios would give the same, with the rounding of the transform multiplied too.
    """
    masses, excess = _one_ratio(spread, cell, largest)
    weighted = masses * (np.arange(len(masses)) * cell)
    sums = _Sums(masses, weighted, steps, side=1)
    infinite = max(1 - float(sums.masses.sum()), 0.0) + excess + 2 * LEFT_OUT
    return _on_losses(sums.masses, sums.places * (cell / steps), interval, infinite, weighted=True)


def _absent(steps: int, spread: float, cell: float, largest: float, interval: float) -> Direction:
    """Q against P; a ratio of 0 is what P never shows."""
    masses, _ = _one_ratio(spread, cell, largest)
    sums = _Sums(masses, masses, steps, side=-1)
    ratios = sums.places * (cell / steps)
    shown = ratios > 0
    singular = float(sums.masses[~shown].sum())
    missing = 1 - float(sums.masses[shown].sum())
    there = _on_losses(sums.masses[shown], ratios[shown], interval, 0.0, weighted=False)
    return Direction(
        1 - there.lower - len(there.masses),
        interval,
        there.masses[::-1].copy(),
        max(missing, singular) + 2 * LEFT_OUT,
    )


class _Sums:
    """The sum of `steps` − 1 places of one law and one of another, over a window that holds next to all of it.

    The rounding of a transform is absolute: in each place of it at most about 2⁻⁵²·log₂ N times the L2 norms of the
    factors. Laws tilted towards one end (`side` 1: large sums) make it small there, so each place has the lesser of
    two upper bounds, and where a tail is read none of it is rounding.
    """

    def __init__(self, masses: Floats, last: Floats, steps: int, side: int) -> None:
        length = steps * (len(masses) - 1) + 1
        size = fft.next_fast_len(length, real=True)
        low, high = _window(masses, steps)
        self.places: Floats = np.arange(low, min(high, length), dtype=np.float64)
        self.masses: Floats = np.full(len(self.places), np.inf)
        for order in (0.0, _tail_order(masses, steps, side)):
            each, each_scale = _tilted(masses, order)
            end, end_scale = (each, each_scale) if last is masses else _tilted(last, order)
            norm = max(float(np.linalg.norm(each)), float(np.linalg.norm(end)))
            rounding = 4 * 2.0**-52 * math.log2(size) * steps * norm
            spectrum = fft.rfft(each, size)
            product = spectrum_power(spectrum, steps - 1) * (spectrum if end is each else fft.rfft(end, size))
            here = np.maximum(fft.irfft(product, size)[low : low + len(self.places)], 0.0) + rounding
            scale = (steps - 1) * each_scale + end_scale - order * self.places
            self.masses = np.minimum(self.masses, here * np.exp(np.minimum(scale, 600.0)))


def _tilted(masses: Floats, order: float, places: Floats | None = None) -> tuple[Floats, float]:
    """masses·e^(order·place), scaled to a sum of 1, and the logarithm of what they were divided by."""
    with np.errstate(divide="ignore"):
        exponents = np.log(masses) + order * (np.arange(len(masses)) if places is None else places)
    top = float(exponents.max())
    scaled = np.exp(exponents - top)
    total = float(scaled.sum())
    return scaled / total, top + math.log(total)


def _tail_order(masses: Floats, steps: int, side: int) -> float:
    """The order that moves the middle of the sum to where its tail has about e^−`TAIL`."""
    starts = np.arange(0, len(masses), max(len(masses) // 1000, 1))  # orders need not be exact
    masses, places = np.add.reduceat(masses, starts), starts.astype(np.float64)
    mean = float(places @ masses)
    deviation = math.sqrt(max(float((places - mean) ** 2 @ masses), 1e-12))
    low, high = 0.0, 60.0 / deviation
    for _ in range(20):
        order = (low + high) / 2
        tilted, scale = _tilted(masses, side * order, places)
        rate = steps * (side * order * float(places @ tilted) - scale)
        low, high = (low, order) if rate > TAIL else (order, high)
    return side * low


def _one_ratio(spread: float, cell: float, largest: float) -> tuple[Floats, float]:
    """Y = exp(N(−s²/2, s²)) split onto 0, d, 2d, …; what lies beyond stays at the end, its excess mean is returned."""
    last = math.ceil(largest / cell)
    masses = np.zeros(last + 1)
    with np.errstate(divide="ignore"):
        scores = (np.log(np.arange(last + 1) * cell) + spread**2 / 2) / spread
    wide = np.diff(scores) > 0.25  # few, next to 0; there by differences, elsewhere by quadrature, exact in the tails
    first = min(int(wide.sum()), last)
    edges = np.arange(first + 1) * cell
    inside, moments = np.diff(ndtr(scores[: first + 1])), np.diff(ndtr(scores[: first + 1] - spread))
    raised = np.clip((moments - edges[:-1] * inside) / cell, 0.0, inside)
    masses[:first] += inside - raised
    masses[1 : first + 1] += raised
    places = np.arange(first, last)
    for point, weight in zip(_POINTS, _WEIGHTS, strict=True):
        share = (point + 1) / 2
        value = (places + share) * cell
        density = np.exp(-0.5 * ((np.log(value) + spread**2 / 2) / spread) ** 2)
        density *= weight / 2 * cell / (spread * math.sqrt(2 * math.pi) * value)
        masses[first:last] += density * (1 - share)
        masses[first + 1 :] += density * share
    end = (math.log(last * cell) + spread**2 / 2) / spread
    beyond = float(ndtr(-end))
    masses[-1] += beyond
    return masses, max(float(ndtr(spread - end)) - last * cell * beyond, 0.0) + LEFT_OUT


def _window(masses: Floats, steps: int) -> tuple[int, int]:
    """Outside of these positions the sum of `steps` has a mass of at most `LEFT_OUT`, also weighted with its size."""
    places = np.arange(len(masses))
    mean = float(places @ masses) / float(masses.sum())
    deviation = math.sqrt(steps * float((places - mean) ** 2 @ masses))
    lower, upper = 0.0, float(steps * (len(masses) - 1))
    weight = math.log(upper + 1) - math.log(LEFT_OUT)
    for multiple in (0.2, 0.5, 1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 10.0, 14.0, 20.0, 30.0):
        for order in (multiple / deviation, -multiple / deviation):
            top = max(order * (len(masses) - 1 - mean), -order * mean)
            logs = top + math.log(float(np.exp(order * (places - mean) - top) @ masses))
            bound = steps * mean + (steps * logs + weight) / order
            lower, upper = (lower, min(upper, bound)) if order > 0 else (max(lower, bound), upper)
    return math.floor(lower), min(math.ceil(upper), steps * (len(masses) - 1)) + 1


def _on_losses(masses: Floats, ratios: Floats, interval: float, infinite: float, weighted: bool) -> Direction:
    """Masses at ratios P/Q on the grid of losses, the mean of the ratio preserved once more.

    `weighted`: they are P's, else Q's, and stay so.
    """
    kept = ratios > 0
    masses, ratios = masses[kept], ratios[kept]
    scores = np.log(ratios) / interval
    floors = np.floor(scores).astype(np.int64)
    up = np.clip(np.expm1((scores - floors) * interval) / math.expm1(interval), 0.0, 1.0)
    first, count = int(floors.min()), int(floors.max() - floors.min()) + 2
    down_weight, up_weight = masses * (1 - up), masses * up
    if weighted:  # Q's mass is split, and P's is e^loss times Q's
        down_weight = down_weight * np.exp(floors * interval) / ratios
        up_weight = up_weight * np.exp((floors + 1) * interval) / ratios
    split: Floats = np.bincount(floors - first, down_weight, count).astype(np.float64)
    split += np.bincount(floors - first + 1, up_weight, count)
    return Direction(first, interval, split, infinite)
