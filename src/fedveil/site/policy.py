"""What a site lets be done with its records: of what, against whom, how much, for one plan and for ever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedveil.accounting.context import Budget
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import cell_name
from fedveil.core.types import Unit, View


@dataclass(frozen=True, kw_only=True)
class SitePolicy:
    """At most (ε, δ) of one cell for a plan, and for all plans together, as long as the records exist.

    A `rehearsal` lets in plans that are seeded or add no noise: for records that are nobody's. It protects nothing, and
    says so wherever the site speaks.
    """

    plan: Budget
    lifetime: Budget
    rehearsal: bool = False

    def __post_init__(self) -> None:
        if (self.plan.unit, self.plan.view) != (self.lifetime.unit, self.lifetime.view):
            raise FedveilError("policy: a plan and the lifetime must be of the same unit and view")
        if self.plan.epsilon <= 0:
            raise FedveilError("policy.epsilon: must be above 0; with 0 no plan could ever be agreed to")
        if self.plan.epsilon > self.lifetime.epsilon or self.plan.delta > self.lifetime.delta:
            raise FedveilError("policy: a single plan can't be allowed more than the lifetime")

    @property
    def unit(self) -> Unit:
        return self.plan.unit

    @property
    def view(self) -> View:
        return self.plan.view

    @property
    def cell(self) -> str:
        return cell_name(self.unit, self.view)

    def to_dict(self) -> dict[str, Any]:
        return {
            "unit": str(self.unit),
            "view": str(self.view),
            "epsilon": self.plan.epsilon,
            "delta": self.plan.delta,
            "lifetime_epsilon": self.lifetime.epsilon,
            "lifetime_delta": self.lifetime.delta,
            "rehearsal": self.rehearsal,
        }


def read_policy(table: Mapping[str, Any]) -> SitePolicy:
    """The policy that `to_dict` wrote, or somebody who edited it."""
    known = ("unit", "view", "epsilon", "delta", "lifetime_epsilon", "lifetime_delta", "rehearsal")
    strange = [key for key in table if key not in known]
    if strange:
        raise FedveilError(f"policy.{strange[0]}: unknown key; there are {', '.join(known)}")
    lacking = [key for key in known[:-1] if key not in table]
    if lacking:
        raise FedveilError(f"policy.{lacking[0]}: is missing")
    numbers = [table[key] for key in known[2:6]]
    if any(isinstance(number, bool) or not isinstance(number, int | float) for number in numbers):
        raise FedveilError("policy: epsilon and delta, of a plan and of the lifetime, must be numbers")
    if not isinstance(table.get("rehearsal", False), bool):
        raise FedveilError("policy.rehearsal: must be true or false")
    try:
        unit, view = Unit(table["unit"]), View(table["view"])
    except ValueError:
        raise FedveilError(f"policy: unit is one of {', '.join(Unit)}, view one of {', '.join(View)}") from None
    epsilon, delta, lifetime_epsilon, lifetime_delta = map(float, numbers)
    return SitePolicy(
        plan=Budget(epsilon, delta, unit, view),
        lifetime=Budget(lifetime_epsilon, lifetime_delta, unit, view),
        rehearsal=table.get("rehearsal", False),
    )
