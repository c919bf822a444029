"""A site reads a plan, sees what it costs here, and agrees to it by its hash, or does not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedveil.accounting.alone import table_alone
from fedveil.accounting.lifetime_filter import PaidAnswer
from fedveil.accounting.table import Table
from fedveil.config.federation_plan import FederationPlan, read_plan
from fedveil.core.atomic import disk_errors, write_whole
from fedveil.core.errors import ArgumentError
from fedveil.site.home import SiteHome
from fedveil.site.policy import SitePolicy
from fedveil.site.site_work import PlannedWork
from fedveil.site.spending import Spending, check_room


@dataclass(frozen=True)
class Examined:
    """What a site must know before it agrees: all of it computed here, by the site's own accountant."""

    plan: FederationPlan
    client: int
    policy: SitePolicy
    table: Table  # what the plan costs this site, counting on nobody else
    price: float  # ε of the plan in the cell of the policy, at its δ for a plan
    spent: float  # ε that all plans so far have reserved, at the lifetime's δ
    after: float  # the same, once this plan is begun
    approved: dict[str, str]  # the plans that were agreed to before, by their hashes


def read_plan_file(path: str | Path) -> FederationPlan:
    """The plan in a file."""
    with disk_errors(Path(path)):
        return read_plan(Path(path).read_bytes())


def examine(home: SiteHome, plan: FederationPlan) -> Examined:
    """What a plan costs here. A plan that this site can't agree to is `Refused`."""
    work = PlannedWork(home, plan)
    work.check()
    spending = Spending(home)
    with home.opened_ledger() as ledger:
        answers, approved = spending.answers(ledger), ledger.approved
    after = answers
    if not any(answer.plan == plan.hash for answer in answers):
        after = [*answers, PaidAnswer(plan.hash, work.planned, spending.own(work.answers[0]))]
        check_room(home.policy, answers, after[-1])
    lifetime = home.policy.lifetime
    return Examined(
        plan=plan,
        client=work.client,
        policy=home.policy,
        table=table_alone(plan.context, work.client),
        price=work.price,
        spent=spending.reserved(answers).epsilon(lifetime.delta),
        after=spending.reserved(after).epsilon(lifetime.delta),
        approved=approved,
    )


def approve(home: SiteHome, plan: FederationPlan) -> None:
    """Agree to a plan, by its hash. The plan is kept word for word before the ledger says that it was agreed to."""
    examine(home, plan)
    write_whole(home.plan_file(plan.hash), plan.content)
    with home.opened_ledger() as ledger:
        ledger.approve(plan.hash, plan.name)


def withdraw(home: SiteHome, plan: str) -> str:
    """Take back what was agreed to, by the plan's hash or how it begins; the plan's name. What it has cost stays.

    While the site is serving it holds the ledger; end it first, and no question is between two answers.
    """
    with home.opened_ledger() as ledger:
        mine = [hash for hash in ledger.approved if ledger.agrees_to(hash) and hash.startswith(plan)]
        if len(mine) != 1 or not plan:
            known = ", ".join(f"{hash[:16]} ({ledger.approved[hash]})" for hash in ledger.approved)
            which = "no plan that is agreed to" if not mine else f"{len(mine)} plans"
            raise ArgumentError("plan", f"'{plan}' is the beginning of {which}; there are {known or 'none'}")
        ledger.withdraw(mine[0])
        return ledger.approved[mine[0]]
