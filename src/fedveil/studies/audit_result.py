"""What an audit ends with: a verdict, what the adversary showed beside what is verified, and what it could have."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fedveil.attacks.audit.bounds import Evidence
from fedveil.attacks.audit.power import Power
from fedveil.attacks.audit.promise import EXCESS_ROUNDING, Excess, Promise
from fedveil.core.guarantee import Guarantee, plain_number
from fedveil.core.types import Unit, View
from fedveil.core.verdicts import Check, Verdict


@dataclass(frozen=True)
class Audit:
    """What an adversary could show about a run, beside what was verified of it."""

    method: str
    data: str
    unit: Unit
    view: View
    rounds: int
    canaries: int  # that were guessed
    planned: int  # more, where it was interrupted
    evidence: Evidence
    verified: Guarantee
    promise: Promise
    gaussian: float | None  # ε at δ if the mechanism is Gaussian, as it declares
    power: Power | None  # None where nothing is promised
    checks: tuple[Check, ...]
    seeded: bool

    @property
    def epsilon_lower(self) -> float:
        return self.evidence.epsilon()

    @property
    def refuted(self) -> Excess | None:
        """Where guesses break the verified curve most clearly; None where they do not."""
        promise = self.promise
        if not promise.finite:
            return None
        broken = promise.excess(self.evidence)
        by_shape = self.gaussian is not None and self.gaussian > promise.epsilon + EXCESS_ROUNDING
        if by_shape and (broken is None or broken.delta != promise.delta):
            assert self.gaussian is not None
            return Excess(promise.delta, self.gaussian, promise.epsilon)
        return broken

    @property
    def verdict(self) -> Verdict:
        if self.refuted is not None or any(check.contradicts for check in self.checks):
            return Verdict.CONTRADICTED
        if self.power is None:
            return Verdict.NOTHING_PROMISED
        return Verdict.CONSISTENT if self.power.conclusive else Verdict.INCONCLUSIVE

    def to_dict(self) -> dict[str, Any]:
        refuted, power = self.refuted, self.power
        return {
            "verdict": str(self.verdict),
            "method": self.method,
            "data": self.data,
            "unit": str(self.unit),
            "view": str(self.view),
            "rounds": self.rounds,
            "canaries": self.canaries,
            "planned_canaries": self.planned,
            "confidence": self.evidence.confidence,
            "epsilon_lower": self.epsilon_lower,
            "epsilon_lower_if_gaussian": self.gaussian,
            "epsilon_verified": plain_number(self.verified.epsilon),
            "delta": self.verified.delta,
            "relation": str(self.verified.relation),
            "refuted": None if refuted is None else asdict(refuted),
            "power": None if power is None else asdict(power),
            "checks": [check.to_dict() for check in self.checks],
            "seeded": self.seeded,
            "details": {
                "statistics": "independent trials and one run" if self.evidence.points else "one run",
                "verified_composition": self.verified.composition,
                "reason": self.verified.reason,
                "caveats": [caveat.to_dict() for caveat in self.verified.caveats],
                "guesses": [asdict(guessed) for guessed in self.evidence.one_run],
                "points": [asdict(point) for point in self.evidence.points],
                "mean_lower": self.evidence.mean,
                "curve": [
                    {"delta": delta, "epsilon_lower": self.evidence.epsilon(delta), "epsilon_verified": epsilon}
                    for delta, epsilon in self.promise.curve
                ],
            },
        }
