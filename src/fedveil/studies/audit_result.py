"""What an audit ends with: the adversary's lower bound beside the verified ε."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fedveil.attacks.audit.bounds import Evidence, worst_excess
from fedveil.core.guarantee import Guarantee, plain_number
from fedveil.core.types import Unit, View


@dataclass(frozen=True)
class Audit:
    """What an adversary could show about a run, beside what was verified of it."""

    method: str
    data: str
    unit: Unit
    view: View
    rounds: int
    canaries: int
    found: Evidence
    verified: Guarantee
    curve: tuple[tuple[float, float], ...]  # (δ, verified ε) at the other δ
    gaussian: float | None  # ε at δ if the mechanism is Gaussian, as it declares
    seeded: bool

    @property
    def epsilon_lower(self) -> float:
        return self.found.epsilon()

    @property
    def refuted(self) -> tuple[float, float, float] | None:
        """(δ, lower, verified) where the verified curve is most clearly broken; None where it holds."""
        if not self.verified.finite:
            return None
        at = (self.verified.delta, self.verified.epsilon)
        broken = worst_excess(self.found, [at])
        if broken is None and self.gaussian is not None and self.gaussian > self.verified.epsilon + 1e-6:
            broken = (at[0], self.gaussian, at[1])
        return broken or worst_excess(self.found, self.curve)

    @property
    def holds(self) -> bool:
        return self.refuted is None

    def to_dict(self) -> dict[str, Any]:
        refuted = self.refuted
        return {
            "method": self.method,
            "data": self.data,
            "unit": str(self.unit),
            "view": str(self.view),
            "rounds": self.rounds,
            "canaries": self.canaries,
            "confidence": self.found.confidence,
            "epsilon_lower": self.epsilon_lower,
            "epsilon_lower_if_gaussian": self.gaussian,
            "epsilon_verified": plain_number(self.verified.epsilon),
            "delta": self.verified.delta,
            "relation": str(self.verified.relation),
            "promised": self.verified.finite,
            "holds": self.holds,
            "refuted": None
            if refuted is None
            else dict(zip(("delta", "epsilon_lower", "epsilon_verified"), refuted, strict=True)),
            "seeded": self.seeded,
            "details": {
                "statistics": "independent trials and one run" if self.found.points else "one run",
                "verified_composition": self.verified.composition,
                "reason": self.verified.reason,
                "caveats": [caveat.to_dict() for caveat in self.verified.caveats],
                "guesses": [asdict(guessed) for guessed in self.found.one_run],
                "points": [asdict(point) for point in self.found.points],
                "mean_lower": self.found.mean,
                "curve": [
                    {"delta": delta, "epsilon_lower": self.found.epsilon(delta), "epsilon_verified": epsilon}
                    for delta, epsilon in self.curve
                ],
            },
        }
