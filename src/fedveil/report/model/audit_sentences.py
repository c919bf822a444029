"""A membership audit in sentences."""

from __future__ import annotations

from collections.abc import Callable

from fedveil.core.guarantee import CaveatKind
from fedveil.core.rounding import rounded_down, rounded_up
from fedveil.core.types import Unit
from fedveil.core.verdicts import Check, CheckKind, Verdict
from fedveil.report.model.evidence_facts import AuditFacts, PowerFacts

VERDICTS = {
    Verdict.CONTRADICTED: "the promise is broken",
    Verdict.CONSISTENT: "consistent with the promise",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.NOTHING_PROMISED: "nothing was promised",
}

_WAS_USED = {Unit.RECORD: "one record was used", Unit.CLIENT: "one client's records were used"}


def audit_sentences(audit: AuditFacts) -> list[str]:
    """What was tried, what it means for the promise, and what else was compared, for who answers for the data."""
    return [_what_was_tried(audit), _what_it_means(audit), *_what_was_compared(audit)]


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
    if audit.verdict is Verdict.NOTHING_PROMISED:
        return f"Nothing was promised against this view: {audit.reason}."
    if audit.verdict is Verdict.CONTRADICTED:
        return _broken(audit)
    assert audit.power is not None
    leaks = [caveat.text for caveat in audit.caveats if caveat.kind is CaveatKind.LEAKED_BOUND]
    but = "".join(f" But it is {leak}." for leak in leaks)
    proved = f"what is proved, ε ≤ {rounded_up(audit.epsilon_verified)} (δ = {audit.delta:g})"
    if audit.verdict is Verdict.CONSISTENT:
        return f"CONSISTENT with {proved}: {_noticed(audit.power)}.{but}"
    return f"INCONCLUSIVE: nothing contradicts {proved}, but {_missed(audit.power)}. {_needed(audit.power)}{but}"


def _noticed(power: PowerFacts) -> str:
    """What the guesses would have shown, rounded down."""
    return (
        f"had the noise been less than {rounded_down(power.noise, 2)} of what is declared, the guesses would have shown"
        f" it with {_surely(power)} (all of them right: ε ≥ {rounded_down(power.possible)})"
    )


def _missed(power: PowerFacts) -> str:
    if power.noise <= 0:
        return f"the guesses would not have shown with {_surely(power)} even that there is no noise at all"
    return (
        f"only noise of less than {rounded_down(power.noise, 2)} of what is declared would the guesses have shown with"
        f" {_surely(power)} (all of them right: ε ≥ {rounded_down(power.possible)})"
    )


def _surely(power: PowerFacts) -> str:
    return f"{rounded_down(100 * power.probability)} % probability"


def _needed(power: PowerFacts) -> str:
    if power.canaries_needed is not None:
        return f"About {power.canaries_needed:,} canaries would show noise of half its size."
    return "To let guesses test the same code, audit it with less noise (a smaller sigma)."


def _broken(audit: AuditFacts) -> str:
    shown = []
    if audit.refuted is not None:
        shown.append(
            f"ε ≤ {rounded_up(audit.refuted.epsilon_verified)} was promised at δ = {audit.refuted.delta:g}, and ε ≥"
            f" {rounded_down(audit.refuted.epsilon_lower, 4)} was shown there"
        )
    shown += [_FAILED[check.kind](check) for check in audit.checks if check.contradicts]
    return (
        f"BROKEN: {'; '.join(shown)}; do not rely on this promise."
        f" Chance alone says this of a sound one in at most {rounded_up(100 * (1 - audit.confidence), 3)} % of"
        " audits: more canaries at a higher confidence rule it out."
    )


def _what_was_compared(audit: AuditFacts) -> list[str]:
    passed = [_PASSED[check.kind](check) for check in audit.checks if not check.contradicts]
    if not passed:
        return []
    return [f"Compared with what is declared: {'; '.join(passed)}."]


def _text(text: str) -> Callable[[Check], str]:
    return lambda check: text.format(measured=_plain(check.measured), samples=f"{check.samples:,}")


def _plain(measured: float) -> str:
    if measured == float("inf"):
        return "∞"
    return f"{measured:.3f}" if 0.01 <= measured < 10 else f"{measured:.3g}"


_PASSED = {
    CheckKind.NOISE_SIZE: _text("the noise has its size in {samples} samples ({measured} of it)"),
    CheckKind.NOISE_REUSE: _text("no two of {samples} noises are alike"),
    CheckKind.REPORT_NOISE: _text("reports of norms carry their noise in {samples} samples ({measured} of its size)"),
    CheckKind.SENSITIVITY: _text("what one unit moves is within its bound in {samples} samples ({measured} of it)"),
    CheckKind.BATCHES: _text("batches hold as many records as they should in {samples} samples"),
    CheckKind.KEYS: _text("no two of {samples} new keys are alike"),
    CheckKind.COHORTS: _text("cohorts of {samples} rounds have no more clients in common than chance gives"),
}
"""What is said of a check that found nothing; every kind has its words."""

_FAILED = {
    CheckKind.NOISE_SIZE: _text(
        "the noise is not what is declared (its size is {measured} of it over all coordinates)"
    ),
    CheckKind.NOISE_REUSE: _text(
        "noise is used more than once (the signs of two noises have a correlation of {measured})"
    ),
    CheckKind.REPORT_NOISE: _text(
        "reports of norms do not carry the noise they declare (its size is {measured} of it)"
    ),
    CheckKind.SENSITIVITY: _text("one unit moves what is seen by {measured} of the declared sensitivity"),
    CheckKind.BATCHES: _text("batches are not drawn as declared (their sizes vary by {measured} of what they should)"),
    CheckKind.KEYS: _text("keys of new runs are not random (a share of {measured} of them comes back)"),
    CheckKind.COHORTS: _text("cohorts are not drawn afresh (two rounds share {measured} of their clients)"),
}
"""What is said of a check that contradicts."""
