"""A site's report: facts from its ledger, one page, and the signed receipts beside it."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from fedveil.accounting.alone import bounds_of, spent_over
from fedveil.accounting.context import Budget
from fedveil.accounting.lifetime_cells import lifetime_cells
from fedveil.config.federation_plan import FederationPlan
from fedveil.core.atomic import write_whole
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.types import Declaration
from fedveil.ledger.lifetime import Consent, LifetimeLedger, PaidQuestion
from fedveil.report.model.site_life import AnswerFacts, BudgetFacts, PlanAtSite, SiteLife
from fedveil.report.model.verdict_sentence import risk_of_cell
from fedveil.report.page.axis_scales import evenly_chosen
from fedveil.report.page.site_page import site_page_html
from fedveil.site.home import SiteHome
from fedveil.site.signed_receipts import sign_receipts
from fedveil.site.site_status import readable_ledger
from fedveil.site.site_work import left_of
from fedveil.site.spending import Spending

COURSE_MARKS = 12
"""Answers after which ε is computed for the chart."""

_REFUSED = re.compile(r"^\S+ \S+ refused \(([a-z-]+)\)", re.MULTILINE)


@dataclass(frozen=True)
class SiteReport:
    """Where the page and the receipts are, and what they speak of."""

    path: Path
    receipts: Path
    life: SiteLife


def site_report(directory: str | Path, out: str | Path = "report.html") -> SiteReport:
    """Write the page of a site, and its signed receipts beside it; also while the site is serving."""
    path = Path(out)
    if path.is_dir() or not path.parent.is_dir():
        raise ArgumentError("out", f"{path} can't be written ({'is' if path.is_dir() else 'is not in'} a directory)")
    home, receipts = SiteHome(Path(directory)), path.with_suffix(".receipts.json")
    with readable_ledger(home) as ledger:
        life = replace(site_life(home, ledger), receipts=receipts.name)
        signed = sign_receipts(home, ledger)
    made = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    write_whole(receipts, signed, private=True)
    write_whole(path, site_page_html(life, made=made, version=version("fedveil")).encode(), private=True)
    return SiteReport(path, receipts, life)


def site_life(home: SiteHome, ledger: LifetimeLedger) -> SiteLife:
    """All facts of the page."""
    policy, paid = home.policy, ledger.paid
    by_plan = {hash: [one for one in paid if one.plan == hash] for hash in ledger.approved}
    lifetime = policy.lifetime
    answered = [[one.declared for one in mine] for mine in by_plan.values() if mine]
    cells = lifetime_cells(answered, len(home.records), lifetime.delta)
    reserved = Spending(home).for_ever(ledger)  # plans that were begun count whole
    return SiteLife(
        name=home.name,
        records=len(home.records),
        key=home.public_key,
        cell=policy.cell,
        lifetime=BudgetFacts(lifetime.epsilon, lifetime.delta, reserved, left_of(lifetime.epsilon, reserved)),
        rehearsal=policy.rehearsal,
        plans=tuple(_plan(home, hash, consent, by_plan[hash]) for hash, consent in ledger.consents.items()),
        answers=tuple(_answer(one, ledger.approved[one.plan]) for one in paid),
        guarantees=cells,
        risks=tuple(map(risk_of_cell, cells)),
        course=_course(home, paid),
        refused=_refused(home),
        ledger=str(ledger.summary),
    )


def _budget(home: SiteHome, budget: Budget, plans: Sequence[Sequence[PaidQuestion]]) -> BudgetFacts:
    spent = _spent(home, budget.delta, plans)
    return BudgetFacts(budget.epsilon, budget.delta, spent, left_of(budget.epsilon, spent))


def _spent(home: SiteHome, delta: float, plans: Sequence[Sequence[PaidQuestion]]) -> float:
    policy, records = home.policy, len(home.records)
    bounds = [bounds_of([one.declared for one in mine], records, policy.unit, policy.view) for mine in plans]
    return spent_over(bounds, delta)


def _plan(home: SiteHome, hash: str, consent: Consent, mine: Sequence[PaidQuestion]) -> PlanAtSite:
    plan = _readable_plan(home, hash)
    sent = [one for one in mine if one.answer is not None]
    sizes = [one.size for one in sent if one.size is not None]
    return PlanAtSite(
        name=consent.name,
        hash=hash,
        agreed=consent.time,
        withdrawn=consent.withdrawn,
        training="" if plan is None else f"{plan.spec.base}, {plan.spec.model.name} of {plan.parameters:,} parameters",
        coordinator="" if plan is None else plan.coordinator,
        others=() if plan is None else tuple(site.name for site in plan.sites if site.name != home.name),
        planned=None if plan is None else plan.spec.method.rounds,
        asked=len({one.round for one in mine}),
        paid=len(mine),
        sent=len(sent),
        size=sum(sizes) if len(sizes) == len(sent) else None,
        budget=_budget(home, home.policy.plan, [mine]),
    )


def _readable_plan(home: SiteHome, hash: str) -> FederationPlan | None:
    """A plan of a version that this one does not read is still in the ledger, and still counts."""
    try:
        return home.read_plan(hash)
    except FedveilError:
        return None


def _answer(paid: PaidQuestion, plan: str) -> AnswerFacts:
    return AnswerFacts(plan, paid.round, paid.time, paid.answer, paid.size, _noise_text(paid.declared))


def _noise_text(declared: Sequence[Declaration]) -> str:
    """What was charged, place by place."""
    parts = [
        f"{one.place}: {one.steps} × at most {one.sensitivity:.4g} of one {one.unit}, noise {one.sum_std:.4g}"
        for one in declared
    ]
    return "; ".join(parts) or "none"


def _course(home: SiteHome, paid: Sequence[PaidQuestion]) -> tuple[tuple[float, float], ...]:
    """ε for ever after so many answers."""
    points = []
    for index in evenly_chosen(len(paid), COURSE_MARKS):
        by_plan: dict[str, list[PaidQuestion]] = {}
        for one in paid[: index + 1]:
            by_plan.setdefault(one.plan, []).append(one)
        points.append((float(index + 1), _spent(home, home.policy.lifetime.delta, list(by_plan.values()))))
    return tuple(points)


def _refused(home: SiteHome) -> dict[str, int]:
    if not home.log.is_file():
        return {}
    return dict(Counter(_REFUSED.findall(home.log.read_text(encoding="utf-8", errors="replace"))))
