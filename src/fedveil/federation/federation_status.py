"""How a federation stands: rounds, who answered, who is missing, how good the model is, what each site has paid."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedveil.core.guarantee import plain_number
from fedveil.core.scores import main_figure
from fedveil.federation.coordinator_home import CoordinatorHome, now
from fedveil.ledger.ledger_copy import read_copy
from fedveil.ledger.ledger_errors import LedgerBusy
from fedveil.report.model.number_texts import delta_text, duration_text, epsilon_text
from fedveil.report.model.status_facts import SHORT_HASH, StatusFacts
from fedveil.runs.account import OWN_UNIT, OWN_VIEW, account


@dataclass(frozen=True)
class SiteContact:
    """One site as the coordinator knows it. `problem` is that of the last question it was asked, if there was one."""

    name: str
    records: int
    answers: int
    missed: int
    last_round: int | None
    problem: str
    text: str
    spent: float | None  # ε by the coordinator's own account, which knows only this plan
    last_heard: float | None = None  # seconds ago


@dataclass(frozen=True)
class FederationStatus:
    """All of it, from the coordinator's files."""

    plan: str
    hash: str
    rounds: int
    planned: int
    finished: bool
    running: bool
    delta: float
    figure: str
    quality: float | None  # by that figure
    counted: bool  # by the sites, with noise; else on the coordinator's public records
    sites: tuple[SiteContact, ...]

    def to_dict(self) -> dict[str, Any]:
        sites = [
            {**asdict(site), "spent": None if site.spent is None else plain_number(site.spent)} for site in self.sites
        ]
        return {**asdict(self), "sites": sites}


def federation_status(home: CoordinatorHome) -> FederationStatus:
    """How things stand, also while a run goes on."""
    plan, files = home.plan, home.run
    spent = _spent(home)  # first, because it takes longest
    contacts = home.contacts()
    events = [event for event in files.read_events() if event["event"] == "round"] if files.events.exists() else []
    moment = now()
    sites = []
    for number, site in enumerate(plan.sites):
        mine = [contact for contact in contacts if contact.site == site.name]
        asked = [contact for contact in mine if contact.round is not None]
        last = mine[-1] if mine else None
        sites.append(
            SiteContact(
                name=site.name,
                records=site.records,
                answers=sum(not contact.problem for contact in asked),
                missed=sum(bool(contact.problem) for contact in asked),
                last_round=asked[-1].round if asked else None,
                problem="" if last is None else last.problem,
                text="" if last is None else last.text,
                spent=None if spent is None else spent[number],
                last_heard=None if last is None else max(0.0, moment - last.time),
            )
        )
    figure = main_figure(plan.schema.task)
    measured = [event[figure.key] for event in events if figure.key in event]
    return FederationStatus(
        plan=plan.name,
        hash=plan.hash,
        rounds=files.published_rounds() if files.checkpoints.is_dir() else 0,
        planned=plan.spec.method.rounds,
        finished=files.result.exists(),
        running=home.is_held,
        delta=plan.context.delta,
        figure=figure.name,
        quality=measured[-1] if measured else None,
        counted=plan.spec.evaluation.counts is not None,
        sites=tuple(sites),
    )


def federation_summary(status: FederationStatus) -> StatusFacts:
    """The same as it is shown."""
    missing = [site.name for site in status.sites if site.problem]
    silent = [site.name for site in status.sites if site.last_heard is None]
    if status.finished:
        state = ("good", "finished")
    elif missing:
        state = ("warn", f"missing: {', '.join(missing)}")
    else:
        state = ("note", "running" if status.running else "not running; next: fedveil federation run")
    where = "as the sites count, with noise" if status.counted else "on public records"
    quality = "not measured yet" if status.quality is None else f"{status.quality:.4f} {where}"
    rows = tuple(
        (
            site.name,
            f"{site.records:,}",
            str(site.answers),
            str(site.missed),
            "–" if site.last_round is None else str(site.last_round + 1),
            "–" if site.last_heard is None else f"{duration_text(site.last_heard)} ago",
            epsilon_text(site.spent),
        )
        for site in status.sites
    )
    return StatusFacts(
        role="Coordinator",
        name=f"{status.plan} {status.hash[:SHORT_HASH]}",
        state=state,
        facts=(
            ("Rounds published", f"{status.rounds} of {status.planned}"),
            (status.figure[:1].upper() + status.figure[1:], quality),
            (
                "Sites that answered when last asked",
                f"{len(status.sites) - len({*missing, *silent})} of {len(status.sites)}",
            ),
        ),
        share=status.rounds / status.planned,
        caption=f"Sites; ε spent under this plan, of {OWN_UNIT} × {OWN_VIEW} at δ = {delta_text(status.delta)}",
        headings=("site", "records", "answers", "missed", "last round", "last heard", "ε"),
        rows=rows,
        notes=tuple(f"{site.name}: {site.problem}: {site.text}" for site in status.sites if site.problem),
        over=status.finished,
    )


def _spent(home: CoordinatorHome) -> tuple[float, ...] | None:
    """What each site has spent by the run's ledger; where a run holds it now, by a copy."""
    files = home.run
    if not files.ledger.is_file():
        return None
    try:
        return account(files.directory).per_client
    except LedgerBusy:
        return read_copy(files.ledger, lambda copy: _spent_in(home, copy.parent))


def _spent_in(home: CoordinatorHome, folder: Path) -> tuple[float, ...] | None:
    """By a copy of the ledger, with what it is held to beside it."""
    for path in (home.run.spec, home.run.manifest, home.run.schema):
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    return account(folder).per_client
