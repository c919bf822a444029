"""An accountant that shares nothing with the product's: what a rule's pair of distributions gives, by plain numerics.

A pair is a list of (weight, mean) for P and for Q, with one standard deviation. Outcomes are cut into fine cells, each
cell's loss is split onto two neighbouring points of a grid so that its mean is kept, and powers are taken by Fourier
transforms, or by direct convolution where δ is too small for these. The error is of second order in the grid and has no
preferred sign, so this is an estimate of the truth, to about one part in a thousand, and no bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr
from scipy.stats import norm

Values = npt.NDArray[np.float64]
Shifts = list[tuple[float, float]]


@dataclass(frozen=True)
class Law:
    """The loss log(P/Q) under P: probability `masses[j]` at `(first + j)·width`, and ∞ with what is missing of 1."""

    first: int
    width: float
    masses: Values

    @property
    def losses(self) -> Values:
        return (self.first + np.arange(len(self.masses))) * self.width

    def delta(self, epsilon: float) -> float:
        above = self.losses > epsilon
        infinite = max(1 - float(self.masses.sum()), 0.0) if len(self.masses) else 1.0
        infinite = infinite if infinite > 1e-9 else 0.0
        return float(self.masses[above] @ -np.expm1(epsilon - self.losses[above])) + infinite

    def epsilon(self, delta: float) -> float:
        low, high = 0.0, float(self.losses[-1]) + self.width
        if self.delta(0.0) <= delta:
            return 0.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high


def log_density(shifts: Shifts, x: Values, noise: float) -> Values:
    logs = [math.log(weight) - 0.5 * ((x - mean) / noise) ** 2 for weight, mean in shifts if weight > 0]
    return np.asarray(np.logaddexp.reduce(logs))


def _cell_masses(shifts: Shifts, edges: Values, noise: float) -> Values:
    total = np.zeros(len(edges) - 1)
    for weight, mean in shifts:
        scores = (edges - mean) / noise
        # The smaller tail on either side, so that far cells keep their relative precision.
        upper = np.where(scores[:-1] > 0, norm.sf(scores[:-1]) - norm.sf(scores[1:]), 0.0)
        lower = np.where(scores[:-1] > 0, 0.0, norm.cdf(scores[1:]) - norm.cdf(scores[:-1]))
        total += weight * (upper + lower)
    return total


def on_grid(losses: Values, masses: Values, width: float) -> Law:
    places = losses / width
    floors = np.floor(places).astype(np.int64)
    share = places - floors
    first = int(floors.min())
    count = int(floors.max()) - first + 2
    out = np.bincount(floors - first, masses * (1 - share), count).astype(np.float64)
    out += np.bincount(floors - first + 1, masses * share, count)
    return Law(first, width, out)


def law_of_pair(p: Shifts, q: Shifts, noise: float, width: float, cells: int = 400_000, reach: float = 14.0) -> Law:
    means = [mean for _, mean in (*p, *q)]
    edges = np.linspace(min(means) - reach * noise, max(means) + reach * noise, cells + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    losses = log_density(p, middles, noise) - log_density(q, middles, noise)
    masses = _cell_masses(p, edges, noise)
    kept = masses > 0
    return on_grid(losses[kept], masses[kept], width)


def spread_of(p: Shifts, q: Shifts, noise: float) -> float:
    """The standard deviation of the loss under P."""
    law = law_of_pair(p, q, noise, 1e-3, 20_000)
    mean = float(law.losses @ law.masses)
    return math.sqrt(max(float((law.losses - mean) ** 2 @ law.masses), 1e-30))


def _trimmed(law: Law, below: float) -> Law:
    kept = np.flatnonzero(law.masses > below)
    low, high = int(kept[0]), int(kept[-1]) + 1
    return Law(law.first + low, law.width, law.masses[low:high])


def power(law: Law, count: int) -> Law:
    """By Fourier transforms; absolute errors of about 1e-15 a step."""
    if count == 1:
        return law
    law = _trimmed(law, 1e-22)
    places = np.arange(len(law.masses))
    mean = float(places @ law.masses)
    variance = float((places - mean) ** 2 @ law.masses)
    half = 14 * math.sqrt(count * variance) + 2 * len(law.masses)
    size = 1 << math.ceil(math.log2(min(2 * half, count * len(law.masses)) + 2))
    spectrum = np.fft.rfft(law.masses, size) ** count
    middle = count * mean
    start = max(math.floor(middle - size / 2), 0)
    masses = np.roll(np.fft.irfft(spectrum, size), -(start % size))
    return Law(count * law.first + start, law.width, np.maximum(masses, 0.0))


def product(first: Law, second: Law) -> Law:
    size = 1 << math.ceil(math.log2(len(first.masses) + len(second.masses)))
    masses = np.fft.irfft(np.fft.rfft(first.masses, size) * np.fft.rfft(second.masses, size), size)
    return Law(first.first + second.first, first.width, np.maximum(masses, 0.0))


def doubled(law: Law, doublings: int, below: float = 1e-45) -> Law:
    """2^doublings-fold, by direct convolution: every term is positive, so the smallest tails are right too."""
    law = _trimmed(law, below)
    for _ in range(doublings):
        law = _trimmed(Law(2 * law.first, law.width, np.convolve(law.masses, law.masses)), below)
    return law


def mixed(cases: list[tuple[float, Law]]) -> Law:
    first = min(law.first for _, law in cases)
    last = max(law.first + len(law.masses) for _, law in cases)
    masses = np.zeros(last - first)
    for weight, law in cases:
        masses[law.first - first : law.first - first + len(law.masses)] += weight * law.masses
    return Law(first, cases[0][1].width, masses)


def nothing(width: float) -> Law:
    return Law(0, width, np.ones(1))


def gaussian_law(noise: float, width: float) -> Law:
    return law_of_pair([(1.0, 1.0)], [(1.0, 0.0)], noise, width)


def seen(law: Law, chance: float) -> Law:
    return law if chance >= 1 else mixed([(chance, law), (1 - chance, nothing(law.width))])


def gaussian_epsilon_of(noise: float, delta: float) -> float:
    """Balle and Wang's formula, by bisection."""
    mean = 1 / noise

    def log_delta(epsilon: float) -> float:
        first, second = log_ndtr(mean / 2 - epsilon / mean), epsilon + log_ndtr(-mean / 2 - epsilon / mean)
        return float(first + math.log(-math.expm1(second - first))) if second < first else -math.inf

    low, high = 0.0, mean * mean + 20 * mean + 100
    while log_delta(high) > math.log(delta):
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if log_delta(middle) > math.log(delta) else (low, middle)
    return high


def sampled(noise: float, rate: float, width: float) -> tuple[Law, Law]:
    """Poisson sampling: with against without, and without against with."""
    p, q = [(1 - rate, 0.0), (rate, 1.0)], [(1.0, 0.0)]
    return law_of_pair(p, q, noise, width), law_of_pair(q, p, noise, width)


def fixed_size(noise: float, rate: float, width: float) -> Law:
    """Replace-one in a uniform subset; z relative to 2S. H(ε) for ε ≥ 0 is the removal's; below 0 it is its mirror."""
    removal = sampled(noise, rate, width)[0]
    losses, masses = removal.losses, removal.masses
    up = losses > 0
    gains, high = masses[up], losses[up]
    mirror = gains * np.exp(-high)
    rest = max(1 - float(gains.sum()) - float(mirror.sum()), 0.0)
    return on_grid(np.concatenate((-high, [0.0], high)), np.concatenate((mirror, [rest], gains)), width)


def hidden(noise: float, rate: float, width: float) -> Law:
    absent = [(1 - rate, 0.0)] if rate < 1 else []
    return law_of_pair([*absent, (rate, 1.0)], [*absent, (rate, -1.0)], noise, width)


def worst_epsilon(laws: tuple[Law, ...], count: int, delta: float) -> float:
    return max(power(law, count).epsilon(delta) for law in laws)


def allocated(steps: int, noise: float, width: float, points: int = 1 << 21) -> tuple[Law, Law]:
    """One of `steps` noisy sums, chosen uniformly: with against without, and without against with.

    P/Q is a mean of log-normal ratios; their sum under Q by a Fourier transform on a linear grid, mean kept.
    """
    spread = 1 / noise
    top = math.exp(spread**2 / 2 + 8.5 * spread)
    cell = min(top / 2000, math.sqrt(math.expm1(spread**2)) / 100)
    cell = max(cell, (top + steps + 14 * math.sqrt(steps * math.expm1(spread**2))) / points)
    scores = np.linspace(-9.5, 9.5, 2_000_001)
    middles = (scores[1:] + scores[:-1]) / 2
    masses = _cell_masses([(1.0, 0.0)], scores, 1.0)
    one = on_grid(np.exp(spread * middles - spread**2 / 2), masses, cell)
    held = np.zeros(points)
    held[one.first : one.first + min(len(one.masses), points)] = one.masses[: points - one.first]
    total = np.maximum(np.fft.irfft(np.fft.rfft(held) ** steps, points), 0.0)
    ratios = np.arange(points) * (cell / steps)
    kept = (ratios > 0) & (total > 1e-17)
    losses, without = np.log(ratios[kept]), total[kept]
    return on_grid(losses, without * ratios[kept], width), on_grid(-losses, without, width)
