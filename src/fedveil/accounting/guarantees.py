"""What is promised: of what, against whom, under which relation. A number without these is not a guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from fedveil.core.errors import FedveilError
from fedveil.core.types import Unit, View
from fedveil.core.words import SPOILING, rounded_up

VACUOUS = 100.0
"""A group's ε beyond this says nothing; it is printed as ∞, with the number in the reason."""


class Relation(StrEnum):
    """Which two data sets must look alike.

    `ADD_OR_REMOVE`: with and without one unit. The numbers of records N_i and of clients K are public constants, so
    the place of the unit that is gone contributes zero; rates, noise and divisors stay what they are.
    `REPLACE_ONE`: one unit exchanged for any other, which can change a sum by 2S.
    """

    ADD_OR_REMOVE = "add-or-remove"
    REPLACE_ONE = "replace-one"


@dataclass(frozen=True)
class Secondary:
    """The same composition by another accountant, for comparison with papers; never the certificate."""

    accountant: str
    epsilon: float
    note: str = ""


@dataclass(frozen=True)
class Guarantee:
    """(ε, δ)-differential privacy of one `unit` against one `view`.

    `epsilon` is ∞ where nothing is promised, and `reason` then says why; for a finite one `reason` is empty.
    `accountant` names what certified it, `composition` says in words what was composed, `caveats` what it rests on.
    """

    unit: Unit
    view: View
    relation: Relation
    epsilon: float
    delta: float
    accountant: str
    composition: str
    caveats: tuple[str, ...] = ()
    reason: str = ""
    secondary: tuple[Secondary, ...] = ()

    def __post_init__(self) -> None:
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise FedveilError(f"{self.unit} × {self.view}: ε came out as {self.epsilon}; this is a bug, trust nothing")
        if math.isinf(self.epsilon) and not self.reason:
            raise FedveilError(f"{self.unit} × {self.view}: ε is ∞ without a reason; this is a bug")

    @property
    def finite(self) -> bool:
        return math.isfinite(self.epsilon)

    def __str__(self) -> str:
        if not self.finite:
            return f"{self.unit} × {self.view}: ε = ∞ ({self.relation}; {self.reason})"
        value = f"ε = {rounded_up(self.epsilon)} at δ = {self.delta:g} ({self.relation}; {self.composition})"
        worst_first = [caveat for mark in SPOILING for caveat in self.caveats if caveat.startswith(mark)]
        return "; ".join([f"{self.unit} × {self.view}: {value}", *worst_first])

    def to_dict(self) -> dict[str, object]:
        """JSON-ready; infinities are the string "inf"."""
        found: dict[str, object] = {
            "unit": str(self.unit),
            "view": str(self.view),
            "relation": str(self.relation),
            "epsilon": plain_number(self.epsilon),
            "delta": self.delta,
            "accountant": self.accountant,
            "composition": self.composition,
            "caveats": list(self.caveats),
            "reason": self.reason,
        }
        if self.secondary:
            found["secondary"] = [
                {"accountant": other.accountant, "epsilon": plain_number(other.epsilon), "note": other.note}
                for other in self.secondary
            ]
        return found


def plain_number(value: float) -> float | str:
    """JSON has no infinity."""
    return "inf" if math.isinf(value) else value


def check_delta(delta: float) -> None:
    """0 < δ < 1; written so that NaN fails."""
    if not 0 < delta < 1:
        raise FedveilError(f"delta: must lie strictly between 0 and 1, not {delta}")


def check_epsilon(epsilon: float) -> None:
    """0 ≤ ε < ∞; written so that NaN fails."""
    if not 0 <= epsilon < math.inf:
        raise FedveilError(f"epsilon: must be a number that is not negative, not {epsilon}")
