"""ε(δ) and δ(ε) of one Gaussian mechanism, in closed form (Balle and Wang 2018)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import log_ndtr

MOST_NOISE = 1e6
"""More noise is accounted as this much: ε would come near the precision to which it is solved for."""


def gaussian_epsilon(noise_multiplier: float, delta: float) -> float:
    """Exact ε(δ) of a Gaussian mechanism (Balle and Wang 2018), rounded up in its last digits."""
    if noise_multiplier < 1e-4:  # ε beyond 5e7
        return math.inf
    mean, wanted = 1 / min(noise_multiplier, MOST_NOISE), math.log(delta)
    if log_gaussian_delta(mean, 0.0) <= wanted:
        return 1e-12
    low, high = 0.0, mean**2 / 2 + mean * math.sqrt(-2 * wanted)  # there Φ(μ/2 − ε/μ) is at most δ
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if log_gaussian_delta(mean, middle) <= wanted:
            high = middle
        else:
            low = middle
    return high * (1 + 1e-10) + 1e-12


def gaussian_delta(noise_multiplier: float, epsilon: float) -> float:
    """Exact δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) with μ = 1/z."""
    return min(1.0, math.exp(log_gaussian_delta(1 / noise_multiplier, epsilon)) + 1e-16)


def mixture_epsilon(cases: Sequence[tuple[float, float]], delta: float) -> float:
    """Exact ε(δ) where a draw that may be seen decides which Gaussian is shown, of (probability, noise multiplier)."""
    high = gaussian_epsilon(min(noise for _, noise in cases), delta)
    if not math.isfinite(high):
        return high
    low = 0.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if mixture_delta(cases, middle) <= delta else (middle, high)
    return high * (1 + 1e-10) + 1e-12


def mixture_delta(cases: Sequence[tuple[float, float]], epsilon: float) -> float:
    """Exact δ(ε) of the same: the mean of the cases'."""
    means = ((weight, 1 / min(noise, MOST_NOISE)) for weight, noise in cases)
    exact = sum(weight * math.exp(log_gaussian_delta(mean, epsilon)) for weight, mean in means)
    return min(1.0, exact * (1 + 1e-9) + 1e-200)


def log_gaussian_delta(mean: float, epsilon: float) -> float:
    """log δ(ε) of a Gaussian of mean μ."""
    first = float(log_ndtr(mean / 2 - epsilon / mean))
    second = epsilon + float(log_ndtr(-mean / 2 - epsilon / mean))
    return first + math.log(-math.expm1(second - first)) if second < first else -math.inf
