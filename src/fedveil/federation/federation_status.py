"""How a federation stands: rounds, who answered, who is missing, how good the model is, what each site has paid."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fedveil.core.guarantee import plain_number
from fedveil.core.scores import main_figure
from fedveil.federation.coordinator_home import CoordinatorHome
from fedveil.ledger.ledger_errors import LedgerBusy
from fedveil.report.model.number_texts import epsilon_text
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


@dataclass(frozen=True)
class FederationStatus:
    """All of it, from the coordinator's files."""

    plan: str
    hash: str
    rounds: int
    planned: int
    finished: bool
    figure: str
    quality: float | None  # by that figure, on the coordinator's public records
    sites: tuple[SiteContact, ...]

    def to_dict(self) -> dict[str, Any]:
        sites = [
            {**asdict(site), "spent": None if site.spent is None else plain_number(site.spent)} for site in self.sites
        ]
        return {**asdict(self), "sites": sites}


def federation_status(home: CoordinatorHome) -> FederationStatus:
    """How things stand; while a run goes on, without what each site has spent, since the run holds the ledger."""
    plan, files, contacts = home.plan, home.run, home.contacts()
    events = [event for event in files.read_events() if event["event"] == "round"] if files.events.exists() else []
    spent: tuple[float, ...] | None = None
    if files.ledger.is_file():
        try:
            spent = account(files.directory).per_client
        except LedgerBusy:
            spent = None
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
        figure=figure.name,
        quality=measured[-1] if measured else None,
        sites=tuple(sites),
    )


def federation_lines(status: FederationStatus) -> list[str]:
    """For a terminal."""
    state = "finished" if status.finished else "not finished; go on with: fedveil federation run"
    quality = "" if status.quality is None else f", {status.figure} {status.quality:.4f} on public records"
    lines = [f"plan '{status.plan}' {status.hash[:16]}: {status.rounds} of {status.planned} rounds{quality}; {state}"]
    for site in status.sites:
        cost = "" if site.spent is None else f", ε = {epsilon_text(site.spent)} of {OWN_UNIT} × {OWN_VIEW}"
        trouble = f"; {site.problem}: {site.text}" if site.problem else ""
        lines.append(f"  {site.name}: {site.answers} answers, {site.missed} missed{cost}{trouble}")
    return lines
