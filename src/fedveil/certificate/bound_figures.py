"""From a composition to the numbers of a certified bound; the same function makes a certificate and checks one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from fedveil.accounting.compose import Composition, certified_delta, certify, gaussian_only
from fedveil.certificate.document import RiskFigures


@lru_cache(maxsize=1024)
def risk_figures(parts: Composition) -> RiskFigures:
    """What an attacker gets at most, from the trade-off of the composition and not from (ε, δ)."""
    advantage = certified_delta(parts, 0.0)
    noise = gaussian_only(parts) if parts else None
    mean = None if noise is None else 1 / noise
    return RiskFigures(advantage, 0.5 + advantage / 2, (), mean)


@dataclass(frozen=True)
class Recomputed:
    """What a composition gives today."""

    epsilon: float
    risk: RiskFigures


def recompute(parts: Composition, delta: float) -> Recomputed:
    return Recomputed(certify(parts, delta).epsilon, risk_figures(parts))


ROUNDING_TOLERANCE = 1e-6
"""Relative: another processor rounds a Fourier transform differently in its last digits."""


def understated(stated: float, computed: float) -> bool:
    """Whether less is stated than holds."""
    if math.isinf(computed):
        return not math.isinf(stated)
    return stated < computed * (1 - ROUNDING_TOLERANCE) - 1e-12
