"""The Gaussian that a composition tends to: what papers state, an approximation and never a certificate."""

from __future__ import annotations

import math

from scipy.special import log_ndtr

from fedveil.accounting.compose import Composition
from fedveil.accounting.events import Step
from fedveil.accounting.gaussian_privacy import gaussian_epsilon

NO_LIMIT = ("hidden-record", "group", "gathered", "allocated")
"""Kinds of steps for which no central limit is stated."""


def central_limit_mean(parts: Composition) -> float | None:
    """μ of the Gaussian that the composition tends to: an approximation that papers use, never a certificate.

    Poisson: μ² = Σ q²(e^(z^−2) − 1) (Bu et al. 2020). Fixed size, replace-one:
    μ² = 2·Σ q²(e^(z^−2)Φ(1.5/z) + 3Φ(−0.5/z) − 2) (Dong et al. 2019). Plain: Σ z^−2.
    None where rounds are drawn, or steps are of kinds for which no such limit is stated.
    """
    if any(term.law or term.chance < 1 or step.kind in NO_LIMIT for term in parts for step, _ in term.steps):
        return None
    square = 0.0
    for term in parts:
        for step, count in term.steps:
            square += term.times * count * _central_limit_square(step)
    return math.sqrt(square)


def _central_limit_square(step: Step) -> float:
    inverse = 1 / step.noise_multiplier
    if step.kind == "gaussian":
        return inverse**2
    if inverse > 26:  # e^(inverse²) overflows
        return math.inf
    if step.kind == "poisson":
        return step.rate**2 * math.expm1(inverse**2)
    upper, lower = math.exp(log_ndtr(1.5 * inverse)), math.exp(log_ndtr(-0.5 * inverse))
    inside = math.exp(inverse**2) * upper + 3 * lower - 2
    return float(2 * step.rate**2 * max(inside, 0.0))  # below 0 by rounding, with enormous noise


def central_limit_epsilon(parts: Composition, delta: float) -> float | None:
    """ε at δ of the central limit's Gaussian."""
    mean = central_limit_mean(parts)
    if mean is None:
        return None
    if mean == 0:
        return 0.0
    return gaussian_epsilon(1 / mean, delta) if math.isfinite(mean) else math.inf
