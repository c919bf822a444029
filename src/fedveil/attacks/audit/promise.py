"""What is promised, in the form in which guesses can contradict it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import ndtr

from fedveil.attacks.audit.bounds import Evidence

EXCESS_ROUNDING = 1e-6
"""What is shown must be above what is promised by more than this."""


@dataclass(frozen=True)
class Excess:
    """Where a promise is broken: at `delta` more was shown than was promised."""

    delta: float
    epsilon_lower: float
    epsilon_verified: float


@dataclass(frozen=True)
class Promise:
    """ε at δ, more of the verified curve as pairs (δ, ε), and μ where all that is verified is one Gaussian."""

    delta: float
    epsilon: float
    curve: tuple[tuple[float, float], ...] = ()
    mean: float | None = None

    @property
    def finite(self) -> bool:
        return math.isfinite(self.epsilon)

    @property
    def most_right(self) -> float:
        """At most this share of answers "in or out?" is right, for any adversary and a fair coin.

        Every (ε, δ) allows (e^ε + δ)/(1 + e^ε), and a Gaussian of mean μ allows Φ(μ/2).
        """
        pairs = ((self.delta, self.epsilon), *self.curve)
        shares = [1 - (1 - delta) / (1 + math.exp(epsilon)) for delta, epsilon in pairs if epsilon < 600]
        if self.mean is not None:
            shares.append(float(ndtr(self.mean / 2)))
        return min([1.0, *shares])

    def excess(self, shown: Evidence) -> Excess | None:
        """The point of the curve that the evidence contradicts most; the promise's own δ comes first.

        That the evidence is above μ is not looked at: only an accountant knows its ε.
        """
        if not self.finite:
            return None
        own = Excess(self.delta, shown.epsilon(self.delta), self.epsilon)
        rest = [Excess(delta, shown.epsilon(delta), epsilon) for delta, epsilon in self.curve]
        broken = [one for one in rest if one.epsilon_lower > one.epsilon_verified + EXCESS_ROUNDING]
        if own.epsilon_lower > own.epsilon_verified + EXCESS_ROUNDING:
            return own
        return max(broken, key=lambda one: one.epsilon_lower - one.epsilon_verified) if broken else None
