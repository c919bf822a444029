"""What a certificate states of a federation's plan."""

from __future__ import annotations

from fedveil.certificate.stated_facts import PlanFacts, stated_plan
from fedveil.config.federation_plan import FederationPlan


def facts_of_plan(plan: FederationPlan) -> PlanFacts:
    return stated_plan(
        plan.hash,
        name=plan.name,
        coordinator=plan.coordinator,
        quorum=plan.spec.method.cohort.quorum,
        deadline=plan.deadline,
    )
