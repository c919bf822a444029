"""From a composition to the numbers of a certified bound; the same function makes a certificate and checks one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedveil.accounting.compose import Composition, certify
from fedveil.accounting.risk import risk_of
from fedveil.certificate.stated_bounds import RiskFigures
from fedveil.core.risks import FALSE_ALARMS, Risk


def figures_of(risk: Risk) -> RiskFigures:
    """A risk as a certificate states it."""
    rates = tuple(zip(FALSE_ALARMS, risk.hits, strict=True))
    return RiskFigures(risk.advantage, risk.right, rates, risk.mean)


def risk_figures(parts: Composition) -> RiskFigures:
    """The risk of a composition, from its trade-off and not from (ε, δ)."""
    return figures_of(risk_of(parts))


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
