"""What a site was asked, what it paid and sent, and what is left."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedveil.core.guarantee import plain_number
from fedveil.ledger.anchor import LedgerSummary, anchor_path
from fedveil.ledger.ledger_errors import LedgerBusy, LedgerUnusable
from fedveil.ledger.lifetime import LifetimeLedger
from fedveil.report.model.number_texts import epsilon_text
from fedveil.site.home import SiteHome
from fedveil.site.policy import SitePolicy
from fedveil.site.site_work import left_of
from fedveil.site.spending import Spending

COPIES, PAUSE = 10, 0.05
"""How often a ledger that is being written is copied, and the seconds in between."""


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
    with _readable_ledger(home) as ledger:
        spending = Spending(home)
        plans = []
        for hash, name in ledger.approved.items():
            mine = [paid for paid in ledger.paid if paid.plan == hash]
            last = mine[-1] if mine else None
            answered = sum(paid.answer is not None for paid in mine)
            plans.append(
                PlanStatus(
                    hash=hash,
                    name=name,
                    charged=len(mine),
                    answered=answered,
                    last_round=None if last is None else last.round,
                    last_time=None if last is None else last.time,
                    spent=spending.of_plan(ledger, hash),
                )
            )
        total, summary = spending.for_ever(ledger), ledger.summary
    return SiteStatus(home.name, len(home.records), home.policy, tuple(plans), total, summary, _last_problem(home))


def status_lines(status: SiteStatus) -> list[str]:
    """For a terminal."""
    policy = status.policy
    lines = [f"site '{status.name}', {status.records:,} records; policy: {policy.cell}"]
    for plan in status.plans:
        last = "nothing asked yet" if plan.last_round is None else f"last round {plan.last_round}, {plan.last_time}"
        lines.append(
            f"  {plan.name} {plan.hash[:16]}: {plan.answered} answers sent, {plan.charged} paid for,"
            f" ε = {epsilon_text(plan.spent)} of {policy.plan.epsilon:g}; {last}"
        )
    left = left_of(policy.lifetime.epsilon, status.spent)
    lines.append(
        f"  for ever: ε = {epsilon_text(status.spent)} of {policy.lifetime.epsilon:g} at δ ="
        f" {policy.lifetime.delta:g}; {left:.4g} left; plans that were begun count whole"
    )
    lines += [f"  {status.ledger}"]
    lines += [f"  last problem: {status.last_problem}"] if status.last_problem else []
    lines += ["  A REHEARSAL: nothing is protected"] if policy.rehearsal else []
    return lines


@contextmanager
def _readable_ledger(home: SiteHome) -> Iterator[LifetimeLedger]:
    """The ledger; a copy of it, while the site is serving and holds it.

    What is copied while an entry is being written does not hang together, which the copy's own check notices.
    """
    try:
        ledger = home.opened_ledger()
    except LedgerBusy:
        with TemporaryDirectory() as folder:
            yield _copied(home, Path(folder))
        return
    with ledger:
        yield ledger


def _copied(home: SiteHome, folder: Path) -> LifetimeLedger:
    copy = folder / home.ledger_file.name
    for remaining in reversed(range(COPIES)):
        for path, target in ((home.ledger_file, copy), (anchor_path(home.ledger_file), anchor_path(copy))):
            shutil.copyfile(path, target)
        try:
            ledger = LifetimeLedger(copy)
        except LedgerUnusable:
            if not remaining:
                raise
            time.sleep(PAUSE)
        else:
            ledger.__exit__(None, None, None)  # all of it is in memory, and nothing may be added to a copy
            return ledger
    raise AssertionError("a copy is read or refused")


def _last_problem(home: SiteHome) -> str:
    if not home.log.is_file():
        return ""
    lines = home.log.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line for line in reversed(lines) if " refused (" in line or " failed: " in line), "")
