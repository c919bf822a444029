"""What a certificate states of a federation's plan."""

from __future__ import annotations

from fedveil.certificate.stated_facts import PlanFacts, federation_facts
from fedveil.config.federation_plan import FederationPlan


def facts_of_plan(plan: FederationPlan) -> PlanFacts:
    return federation_facts(
        plan.hash,
        name=plan.name,
        coordinator=plan.coordinator,
        quorum=plan.spec.method.cohort.quorum,
        deadline=plan.deadline,
    )
