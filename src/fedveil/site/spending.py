"""What a site has paid so far, against what its policy allows for a plan and for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fedveil.accounting.alone import PlanBounds, bounds_of
from fedveil.accounting.budget import stays_within
from fedveil.accounting.lifetime_filter import PaidAnswer, Reserved, plan_counts_as, reserved
from fedveil.core.types import Declaration
from fedveil.ledger.lifetime import LifetimeLedger
from fedveil.site.home import SiteHome
from fedveil.site.policy import SitePolicy
from fedveil.site.refusals import RefusalKind, Refused
from fedveil.site.site_work import PlannedWork


@dataclass
class Spending:
    """Reads a ledger in the cell of the policy. What was computed of a plan or of an answer is kept."""

    home: SiteHome
    _whole: dict[str, PlanBounds] = field(default_factory=dict)
    _own: dict[tuple[Declaration, ...], PlanBounds] = field(default_factory=dict)

    def whole(self, plan: str) -> PlanBounds:
        """What a plan shows if every question of it is answered once."""
        if plan not in self._whole:
            self._whole[plan] = PlannedWork(self.home, self.home.read_plan(plan)).planned
        return self._whole[plan]

    def own(self, declared: tuple[Declaration, ...]) -> PlanBounds:
        """What one answer shows."""
        if declared not in self._own:
            policy = self.home.policy
            self._own[declared] = bounds_of([declared], len(self.home.records), policy.unit, policy.view)
        return self._own[declared]

    def answers(self, ledger: LifetimeLedger) -> list[PaidAnswer]:
        """All that was ever paid for, in its order."""
        return [PaidAnswer(paid.plan, self.whole(paid.plan), self.own(paid.declared)) for paid in ledger.paid]

    def of_plan(self, ledger: LifetimeLedger, plan: str) -> float:
        """ε of the answers to a plan so far, at the policy's δ for a plan."""
        declared = [paid.declared for paid in ledger.paid if paid.plan == plan]
        policy = self.home.policy
        if not declared:
            return 0.0
        return bounds_of(declared, len(self.home.records), policy.unit, policy.view).epsilon(policy.plan.delta)

    def for_ever(self, ledger: LifetimeLedger) -> float:
        """ε that is reserved of the lifetime's, at its δ: plans that were begun count whole."""
        return self.reserved(self.answers(ledger)).epsilon(self.home.policy.lifetime.delta)

    def reserved(self, answers: Sequence[PaidAnswer]) -> Reserved:
        return reserved(answers, self.home.policy.lifetime.delta)


def check_room(policy: SitePolicy, answers: Sequence[PaidAnswer], following: PaidAnswer) -> None:
    """Refuse an answer after which a plan, or all plans together, would have cost more than the policy allows."""
    if policy.rehearsal:
        return
    mine = [answer.own for answer in (*answers, following) if answer.plan == following.plan]
    parts = plan_counts_as(following.whole, mine, policy.plan)
    if parts is None or not stays_within(parts, policy.plan):
        raise Refused(
            RefusalKind.OVER_BUDGET,
            f"one more answer under this plan would pass ε = {policy.plan.epsilon:g} of {policy.cell} at δ ="
            f" {policy.plan.delta:g}, which is what a plan may cost here",
        )
    if not reserved([*answers, following], policy.lifetime.delta).fits(policy.lifetime):
        raise Refused(
            RefusalKind.OVER_LIFETIME,
            f"one more answer would pass what may ever be learned of {policy.cell} here",
        )
