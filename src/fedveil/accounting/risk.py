"""What an ε means: an attacker's best rates, from the trade-off function itself and not from one (ε, δ).

Whoever must say whether a unit's data was used is right about it (true positives) at most TPR(FPR) = min over ε of
δ(ε) + e^ε·FPR of the time, at a given rate of false alarms; δ(ε) is that of the composition, in both directions and for
every real ε. The largest TPR − FPR is δ(0), the total variation. A Gaussian of μ has Φ(Φ⁻¹(FPR) + μ) and 2Φ(μ/2) − 1.
Everything is rounded up, as ε is.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from fedveil.accounting import compose, pld, renyi
from fedveil.accounting.compose import Composition
from fedveil.accounting.losses import Direction, Floats, Losses
from fedveil.core.risks import FALSE_ALARMS, Risk

RAISED_RISK = 1e-9
"""Added to every rate, which costs nothing that is printed."""
_EPSILONS: Floats = np.concatenate((-np.geomspace(60, 1e-4, 400), [0.0], np.geomspace(1e-4, 60, 400)))


@lru_cache(maxsize=1024)
def risk_of(parts: Composition) -> Risk:
    """The risk of a composition."""
    hits = tuple(hit_rate(parts, fpr) for fpr in FALSE_ALARMS)
    noise = compose.gaussian_only(parts) if parts else None
    if not parts:
        return Risk(hits, 0.0, 0.5, 0.0)
    if noise is not None:
        mean = 1 / noise
        advantage = _raised(2 * float(ndtr(mean / 2)) - 1)
        return Risk(hits, advantage, float(ndtr(-mean / 2)), mean)
    advantage, best = max(_advantage(parts))
    return Risk(hits, advantage, best)


@lru_cache(maxsize=4096)
def hit_rate(parts: Composition, fpr: float) -> float:
    """The largest true-positive rate at a false-positive rate."""
    if not parts or fpr in (0.0, 1.0):
        return fpr if not parts or fpr == 1 else _raised(compose.certified_delta(parts, 60.0))
    noise = compose.gaussian_only(parts)
    if noise is not None:
        return _raised(float(ndtr(ndtri(fpr) + 1 / noise)))
    whole = _losses(parts)
    if whole is None:
        return _raised(_by_renyi(parts, fpr))
    steps = compose.total_steps(parts)
    return _raised(max(_one_way(way, fpr, pld.rounding(way, steps)) for way in whole.distinct))


def _losses(parts: Composition) -> Losses | None:
    """The composed PLD on the finest grid that can be read; None where there is none."""
    for coarsening in compose.COARSENINGS:
        whole = compose.composed_pld(parts, coarsening)
        if whole is not None and all(pld.rounding(way, 1) < 0.01 for way in whole.distinct):
            return whole
    return None


def _one_way(way: Direction, fpr: float, rounding: float) -> float:
    """min over ε of δ(ε) + e^ε·FPR, which is convex in e^ε: a coarse look, then a fine one around its minimum."""
    epsilons = _EPSILONS
    for _ in range(3):
        rates = way.deltas(epsilons) + rounding + np.exp(epsilons) * fpr
        place = int(np.argmin(rates))
        around = epsilons[max(place - 1, 0)], epsilons[min(place + 1, len(epsilons) - 1)]
        epsilons = np.linspace(*around, 200)
    return float(rates.min())


def _advantage(parts: Composition) -> list[tuple[float, float]]:
    """δ(0) of each direction, and the false-positive rate of the test that attains it: Q's mass above loss 0."""
    whole = _losses(parts)
    if whole is None:
        return [(_raised(renyi.delta_at(compose.divergences(parts), 0.0)), 0.5)]
    steps, zero = compose.total_steps(parts), np.zeros(1)
    found = []
    for way in whole.distinct:
        above = way.losses > 0
        alarms = float((way.probabilities[above] * np.exp(-way.losses[above])).sum())
        found.append((_raised(float(way.deltas(zero)[0]) + pld.rounding(way, steps)), min(max(alarms, 0.0), 1.0)))
    return found


def _by_renyi(parts: Composition, fpr: float) -> float:
    divergences = compose.divergences(parts)
    return min(renyi.delta_at(divergences, epsilon) + math.exp(epsilon) * fpr for epsilon in np.linspace(0, 20, 81))


def _raised(rate: float) -> float:
    return min(rate + RAISED_RISK, 1.0)


def tradeoff_points(parts: Composition, count: int = 200) -> tuple[list[float], list[float]]:
    """False-positive rates from 0 to 1 and the best true-positive rate at each, for a picture."""
    levels = np.concatenate(([0.0], np.geomspace(1e-4, 0.5, count // 2), np.linspace(0.5, 1.0, count // 2)[1:]))
    return [float(level) for level in levels], [hit_rate(parts, float(level)) for level in levels]
