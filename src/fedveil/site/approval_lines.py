"""What a site is shown before it agrees to a plan, line by line."""

from __future__ import annotations

from fedveil.config.federation_plan import FederationPlan
from fedveil.core.types import Unit
from fedveil.data.record_form import form_words
from fedveil.report.model.number_texts import epsilon_text
from fedveil.report.terminal.guarantee_lines import table_lines
from fedveil.site.approval import Examined


def plan_lines(plan: FederationPlan) -> list[str]:
    """What a plan is, in public facts."""
    spec, method = plan.spec, plan.spec.method
    quorum = method.cohort.quorum
    return [
        f"plan '{plan.name}', {plan.hash}",
        f"  method {spec.base}, {method.rounds} rounds, network {spec.model.name} of {plan.parameters:,} parameters",
        f"  predicts {form_words(plan.schema)}",
        f"  sites: {', '.join(f'{site.name} ({site.records:,} records)' for site in plan.sites)}",
        f"  a round is published with {'all answers' if quorum is None else f'{quorum} answers or more'};"
        f" a site has {plan.deadline:g} seconds to answer",
        *_measured_lines(plan),
        f"  questions come from whoever holds the key {plan.coordinator[:16]}…",
    ]


def _measured_lines(plan: FederationPlan) -> list[str]:
    counts = plan.spec.evaluation.counts
    if counts is None:
        return ["  how good the model is, is measured on public records of the coordinator's"]
    times, held_out = counts.times(plan.spec.method.rounds), sum(site.held_out for site in plan.sites)
    return [
        f"  how good the model is, is counted at the sites, {times} times, on {held_out:,} records that they hold out;",
        f"  counts get noise of σ = {counts.sigma:g} for each record, and what that costs is in the numbers below",
    ]


def examined_lines(examined: Examined) -> list[str]:
    """What the plan costs this site, of what and against whom, and what is left for ever."""
    policy, plan = examined.policy, examined.plan
    adversary = policy.view.adversary
    unit = "one record here" if policy.unit is Unit.RECORD else "all records here together"
    lines = [*plan_lines(plan), ""]
    lines += ["what it costs this site, counting on nobody else:"]
    lines += table_lines("costs", examined.table.guarantees)
    lines += ["", f"your policy speaks of {policy.cell}: {unit}. {adversary.who} {adversary.sees}."]
    lines += [
        f"  this plan: ε = {epsilon_text(examined.price)} of at most {policy.plan.epsilon:g}"
        f" (δ = {policy.plan.delta:g})",
        f"  all plans, for ever: ε = {epsilon_text(examined.spent)} reserved,"
        f" {epsilon_text(examined.after)} once this one is begun, of at most {policy.lifetime.epsilon:g}"
        f" (δ = {policy.lifetime.delta:g})",
    ]
    before = [name for hash, name in examined.approved.items() if hash != plan.hash]
    lines += [f"  agreed to before: {', '.join(before)}"] if before else []
    lines += ["  agreed to already, by this hash"] if plan.hash in examined.approved else []
    if policy.rehearsal:
        lines.append("THIS IS A REHEARSAL: seeded plans and plans without noise are let in; nothing is protected")
    return lines
