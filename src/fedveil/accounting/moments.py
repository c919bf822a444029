"""The Rényi divergences behind the moments accountant that the papers ran. Nothing is certified with them.

For a Gaussian of noise multiplier z on a Poisson sample of rate q (Mironov, Talwar and Zhang 2019), the larger of the
two directions at order α is log(A)/(α − 1), A = E over x ~ N(0, z²) of ((1 − q) + q·exp((2x − 1)/(2z²)))^α.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln, log_ndtr

from fedveil.accounting.losses import Floats

TERMS = 1000
"""Of the two series for orders that are not whole, as many as dp_accounting makes."""

LAST = -30.0
"""The logarithm of what a last term may be of the whole; an order whose terms do not get there is left out."""


def sampled_gaussian_divergences(noise_multiplier: float, rate: float, orders: Sequence[float]) -> Floats:
    """D_α at every order, or a bound on it; ∞ where A is beyond all numbers."""
    if rate == 1:
        return np.array([order / (2 * noise_multiplier**2) for order in orders])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        logs = [
            (_whole if order == round(order) else _fractional)(float(order), noise_multiplier, rate) for order in orders
        ]
    found = np.array(logs) / (np.array(orders, dtype=np.float64) - 1)
    return np.where(np.isfinite(found) & (found >= 0), found, np.inf)


def _whole(order: float, noise: float, rate: float) -> float:
    """log A by the binomial theorem: A = Σ_k C(α, k)·(1 − q)^(α−k)·q^k·exp((k² − k)/(2z²))."""
    k = np.arange(order + 1)
    logs = _log_choose(order, k) + k * math.log(rate) + (order - k) * math.log1p(-rate) + (k * k - k) / (2 * noise**2)
    return float(np.logaddexp.reduce(logs))


def _fractional(order: float, noise: float, rate: float) -> float:
    """A bound on log A by two series, one on each side of the point z0 where both parts of the mixture are equal.

    Terms below zero are added by their size, as in dp_accounting, whose values the papers' claims are computed with.
    """
    i = np.arange(TERMS, dtype=np.float64)
    j = order - i
    middle = noise**2 * math.log(1 / rate - 1) + 0.5
    size = _log_choose(order, i)
    below = size + i * math.log(rate) + j * math.log1p(-rate) + (i * i - i) / (2 * noise**2)
    above = size + j * math.log(rate) + i * math.log1p(-rate) + (j * j - j) / (2 * noise**2)
    below, above = below + log_ndtr((middle - i) / noise), above + log_ndtr((j - middle) / noise)
    whole = float(np.logaddexp.reduce(np.concatenate([below, above])))
    return whole if max(below[-1], above[-1]) < whole + LAST else math.inf


def _log_choose(order: float, k: Floats) -> Floats:
    """log |C(α, k)|, also where α is not whole."""
    return np.asarray(gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1))
