"""The facts of a federation for the page of its run."""

from __future__ import annotations

from fedveil.accounting.alone import table_alone
from fedveil.core.types import Unit, View
from fedveil.federation.coordinator_home import Contact, CoordinatorHome
from fedveil.report.model.federation_facts import FederationFacts, ParticipantFacts


def federation_facts(home: CoordinatorHome) -> FederationFacts:
    """From the plan, and from what was noted of each site."""
    plan, contacts = home.plan, home.contacts()
    participants = []
    for client, site in enumerate(plan.sites):
        mine = [contact for contact in contacts if contact.site == site.name]
        answered = {contact.round for contact in mine if contact.round is not None and not contact.problem}
        asked = {contact.round for contact in mine if contact.round is not None}
        participants.append(
            ParticipantFacts(
                name=site.name,
                records=site.records,
                answers=len(answered),
                missed=tuple(sorted(asked - answered)),
                problem=_problem(mine),
                alone=table_alone(plan.context, client).of(Unit.RECORD, View.SERVER).epsilon,
            )
        )
    return FederationFacts(
        plan=plan.name,
        hash=plan.hash,
        coordinator=plan.coordinator,
        deadline=plan.deadline,
        quorum=plan.spec.method.cohort.quorum,
        participants=tuple(participants),
        delta=plan.context.delta,
    )


def _problem(contacts: list[Contact]) -> str:
    last = contacts[-1] if contacts else None
    return "" if last is None or not last.problem else f"{last.problem}: {last.text}"
