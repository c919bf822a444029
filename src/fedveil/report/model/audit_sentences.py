"""A membership audit in sentences."""

from __future__ import annotations

from fedveil.core.guarantee import CaveatKind
from fedveil.core.rounding import rounded_down, rounded_up
from fedveil.core.types import Unit
from fedveil.report.model.evidence_facts import AuditFacts

_WAS_USED = {Unit.RECORD: "one record was used", Unit.CLIENT: "one client's records were used"}


def audit_sentences(audit: AuditFacts) -> list[str]:
    """What was tried and whether the promise held, for somebody who answers for the data."""
    return [_what_was_tried(audit), _what_it_means(audit)]


def _what_was_tried(audit: AuditFacts) -> str:
    gaussian = audit.epsilon_lower_if_gaussian
    lower = f"ε is at least {rounded_down(audit.epsilon_lower)}"
    if gaussian is not None and gaussian > audit.epsilon_lower:
        lower += f" ({rounded_down(gaussian)} if the noise has the Gaussian shape that it declares)"
    return (
        f"An adversary who sees {audit.view.adversary.watches} tried to tell, {audit.canaries:,} times, whether"
        f" {_WAS_USED[audit.unit]}, over {audit.rounds} round{'s' * (audit.rounds > 1)} of {audit.method} on"
        f" {audit.data}; what it got right shows, with confidence {audit.confidence}, that {lower}."
    )


def _what_it_means(audit: AuditFacts) -> str:
    if not audit.promised:
        return f"Nothing was promised against this view: {audit.reason}."
    if audit.holds:
        leaks = [caveat.text for caveat in audit.caveats if caveat.kind is CaveatKind.LEAKED_BOUND]
        return (
            f"That is within what is proved, ε ≤ {rounded_up(audit.epsilon_verified)} (δ = {audit.delta:g}): the audit"
            f" found nothing that contradicts the promise.{''.join(f' But it is {leak}.' for leak in leaks)}"
        )
    if audit.refuted is None:
        shown = f"ε ≤ {rounded_up(audit.epsilon_verified)} was promised at δ = {audit.delta:g}, and more was shown"
    else:
        shown = (
            f"ε ≤ {rounded_up(audit.refuted.epsilon_verified)} was promised at δ = {audit.refuted.delta:g}, and ε ≥"
            f" {rounded_down(audit.refuted.epsilon_lower, 4)} was shown there"
        )
    return (
        f"BROKEN: {shown}; do not rely on this promise."
        f" Chance alone says this of a sound one in at most {rounded_up(100 * (1 - audit.confidence), 3)} % of"
        " audits: more canaries at a higher confidence rule it out."
    )
