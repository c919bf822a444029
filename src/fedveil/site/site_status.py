"""What a site was asked, what it paid and sent, and what is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedveil.core.guarantee import plain_number
from fedveil.ledger.anchor import LedgerSummary
from fedveil.ledger.ledger_copy import read_copy
from fedveil.ledger.ledger_errors import LedgerBusy
from fedveil.ledger.lifetime import LifetimeLedger
from fedveil.report.model.number_texts import delta_text, epsilon_text, left_text
from fedveil.report.model.status_facts import SHORT_HASH, StatusFacts
from fedveil.site.home import SiteHome
from fedveil.site.policy import SitePolicy
from fedveil.site.site_work import left_of
from fedveil.site.spending import Spending


@dataclass(frozen=True)
class PlanStatus:
    """One plan at this site."""

    hash: str
    name: str
    charged: int
    answered: int
    last_round: int | None
    last_time: str | None
    spent: float
    withdrawn: str | None = None  # when it was taken back that the site agrees


@dataclass(frozen=True)
class SiteStatus:
    """All of it, from the ledger."""

    name: str
    records: int
    policy: SitePolicy
    plans: tuple[PlanStatus, ...]
    spent: float
    ledger: LedgerSummary
    last_problem: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "site": self.name,
            "records": self.records,
            "policy": self.policy.to_dict(),
            "spent": plain_number(self.spent),
            "left": plain_number(left_of(self.policy.lifetime.epsilon, self.spent)),
            "plans": [{**vars(plan), "spent": plain_number(plan.spent)} for plan in self.plans],
            "ledger": str(self.ledger),
            "last_problem": self.last_problem,
        }


def site_status(home: SiteHome) -> SiteStatus:
    """How things stand, also while the site is serving."""
    with readable_ledger(home) as ledger:
        spending = Spending(home)
        plans = []
        for hash, consent in ledger.consents.items():
            mine = [paid for paid in ledger.paid if paid.plan == hash]
            last = mine[-1] if mine else None
            answered = sum(paid.answer is not None for paid in mine)
            plans.append(
                PlanStatus(
                    hash=hash,
                    name=consent.name,
                    charged=len(mine),
                    answered=answered,
                    last_round=None if last is None else last.round,
                    last_time=None if last is None else last.time,
                    spent=spending.of_plan(ledger, hash),
                    withdrawn=consent.withdrawn,
                )
            )
        total, summary = spending.for_ever(ledger), ledger.summary
    return SiteStatus(home.name, len(home.records), home.policy, tuple(plans), total, summary, _last_problem(home))


def site_facts(status: SiteStatus) -> StatusFacts:
    """The same as they are shown."""
    policy = status.policy
    lifetime, left = policy.lifetime, left_of(policy.lifetime.epsilon, status.spent)
    sent, paid = (sum(getattr(plan, key) for plan in status.plans) for key in ("answered", "charged"))
    state = ("bad", "a rehearsal: nothing is protected") if policy.rehearsal else ("good", "keeps its policy")
    if not policy.rehearsal and left <= 0:
        state = ("warn", "nothing is left")
    rows = tuple(
        (
            f"{plan.name} {plan.hash[:SHORT_HASH]}",
            "–" if plan.last_round is None else str(plan.last_round + 1),
            str(plan.charged),
            str(plan.answered),
            epsilon_text(plan.spent),
            left_text(left_of(policy.plan.epsilon, plan.spent)),
        )
        for plan in status.plans
    )
    times = [plan.last_time for plan in status.plans if plan.last_time is not None]
    withdrawn = [f"{plan.name} {plan.hash[:SHORT_HASH]}: taken back" for plan in status.plans if plan.withdrawn]
    problem = [f"last problem: {status.last_problem}"] if status.last_problem else []
    return StatusFacts(
        role="Site",
        name=status.name,
        state=state,
        facts=(
            ("Records, which stay here", f"{status.records:,}"),
            ("Answers paid for, sent", f"{paid:,}, {sent:,}"),
            (f"ε for ever ({policy.cell}, δ = {delta_text(lifetime.delta)})", f"{epsilon_text(status.spent)} reserved"),
            ("Left, for ever", f"{left_text(left)} of {lifetime.epsilon:g}"),
        ),
        share=min(1.0, status.spent / lifetime.epsilon),
        caption=f"Plans; a plan may cost ε = {policy.plan.epsilon:g} at δ = {delta_text(policy.plan.delta)}",
        headings=("plan", "last round", "paid", "sent", "ε spent", "ε left"),
        rows=rows,
        notes=(
            *([] if rows else ["nobody here has agreed to a plan yet: fedveil site approve INVITATION.json"]),
            *([f"last paid {max(times).replace('T', ' ').replace('+00:00', ' UTC')}"] if times else []),
            *withdrawn,
            *problem,
            str(status.ledger),
        ),
    )


@contextmanager
def readable_ledger(home: SiteHome) -> Iterator[LifetimeLedger]:
    """The ledger; a copy of it, while the site is serving and holds it."""
    try:
        ledger = home.opened_ledger()
    except LedgerBusy:
        yield read_copy(home.ledger_file, _read_and_close)
        return
    with ledger:
        yield ledger


def _read_and_close(copy: Path) -> LifetimeLedger:
    ledger = LifetimeLedger(copy)
    ledger.__exit__(None, None, None)  # all of it is in memory, and nothing may be added to a copy
    return ledger


def _last_problem(home: SiteHome) -> str:
    if not home.log.is_file():
        return ""
    lines = home.log.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line for line in reversed(lines) if " refused (" in line or " failed: " in line), "")
