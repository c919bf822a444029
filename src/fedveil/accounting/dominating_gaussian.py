"""The Gaussian that a composition is no more revealing than, up to a small share of δ.

A pair P, Q is covered by (μ, w) if, in both directions and at every ε ≥ 0, its divergence is at most that of the pair
which shows N(μ, 1) against N(0, 1) with probability 1 − w, and everything with probability w:

    H(ε) ≤ (1 − w)·G_μ(ε) + w,    where G_μ is the Gaussian's.

G_μ(ε) ≤ G_μ(0) = 1 − 2Φ(−μ/2), so H(ε) − G_μ(ε) ≤ w·2Φ(−μ/2) is enough. Both pairs look alike from both sides, so
ε < 0 follows, and by Blackwell's theorem P, Q can be made from the covering pair without the data.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtr

from fedveil.accounting import pld
from fedveil.accounting.compose import COARSENINGS, Composition, composed_pld, gaussian_only, total_steps
from fedveil.accounting.losses import Direction

LARGEST_MEAN = 100.0
"""μ beyond this covers nothing that means anything."""
PRECISION = 1e-4


@lru_cache(maxsize=1024)
def dominating_mean(parts: Composition, share: float) -> float:
    """The smallest μ, rounded up, that covers a composition together with w = `share`; ∞ where none is found."""
    if not parts:
        return 0.0
    noise = gaussian_only(parts)
    if noise is not None:
        return 1 / noise
    ways = _readable(parts)
    if ways is None or not _covered(ways, LARGEST_MEAN, share):
        return math.inf
    low, high = 0.0, LARGEST_MEAN
    while high - low > PRECISION * high:
        middle = math.sqrt(max(low, 1e-6) * high)
        low, high = (low, middle) if _covered(ways, middle, share) else (middle, high)
        if high <= 1e-5:
            break
    return high


def _readable(parts: Composition) -> list[tuple[Direction, float]] | None:
    """Both directions on the finest grid that can be read, with what rounding may hide; None where there is none."""
    for coarsening in COARSENINGS:
        whole = composed_pld(parts, coarsening)
        if whole is not None:
            ways = [(way, pld.rounding(way, total_steps(parts))) for way in whole.distinct]
            if all(hidden < 1e-3 for _, hidden in ways):
                return ways
    return None


def _covered(ways: list[tuple[Direction, float]], mean: float, share: float) -> bool:
    room = share * 2 * float(ndtr(-mean / 2))
    return all(_excess(way, hidden, mean) <= room for way, hidden in ways)


def _excess(way: Direction, hidden: float, mean: float) -> float:
    """At most sup over ε ≥ 0 of H(ε) − G_μ(ε).

    In x = e^ε, H is a polygon with its corners at the losses, and G_μ is convex with the slope −Φ(−μ/2 − ε/μ). So
    between two corners the difference is concave, and lies below the tangents at both.
    """
    epsilons = np.concatenate(([0.0], way.losses[way.losses > 0]))
    epsilons = epsilons[epsilons <= 500.0]
    heights = way.deltas(epsilons) + hidden
    lower = np.exp(np.minimum(epsilons + log_ndtr(-mean / 2 - epsilons / mean), 0.0))
    gaussian = np.clip(ndtr(mean / 2 - epsilons / mean) - lower, 0.0, 1.0)
    above = heights - gaussian
    widths = np.diff(np.exp(epsilons))
    slopes = np.diff(heights) / widths
    falls = ndtr(-mean / 2 - epsilons / mean)
    at_start, at_end = slopes + falls[:-1], slopes + falls[1:]
    inside = np.minimum(above[:-1] + np.maximum(at_start, 0.0) * widths, above[1:] - np.minimum(at_end, 0.0) * widths)
    return float(max(above.max(), inside.max(initial=0.0)))
