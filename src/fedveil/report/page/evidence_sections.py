"""What adversaries really got: attacks with pictures, audits with their bounds."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

from fedveil.core.rounding import rounded_down
from fedveil.core.verdicts import Verdict
from fedveil.report.model.audit_sentences import VERDICTS, audit_sentences
from fedveil.report.model.evidence_facts import AttackFacts, AuditFacts, Theft
from fedveil.report.model.number_texts import epsilon_text
from fedveil.report.model.run_facts import Clients, Options, Run
from fedveil.report.page.markup import Markup, callout, join, paragraph, table, tag

NOT_FOR_RELEASE = (
    "These pictures show real training records of the named clients. They are for you, not for release:"
    " --without-pictures leaves them out, --for-release leaves out all attacks."
)

KEEPS = " makes one and keeps its result."

CALLOUTS = {
    Verdict.CONTRADICTED: "bad",
    Verdict.CONSISTENT: "note",
    Verdict.INCONCLUSIVE: "warn",
    Verdict.NOTHING_PROMISED: "note",
}
"""How a verdict is framed."""


def attack_section(run: Run, options: Options, level: int) -> Markup:
    """Each attack in a sentence, its numbers, and a few records beside what was made of them."""
    if options.release:
        return paragraph("Left out of a page for release: an attack's success is measured on real training records.")
    if not run.attacks:
        command = tag("code", "fedveil attack RUN --view on_device")
        return paragraph("No attack on this run is known. With the path of its directory for RUN, ", command, KEEPS)
    headings = ["Adversary", "Reconstructed", "Error (RMSE)", "Constant guess", "Labels right", "Attack", "Victims"]
    rows = [_attack_row(attack) for attack in run.attacks]
    parts = [
        paragraph(
            "An attacker with the given view of the last published model tried to reconstruct the training records of"
            " some clients. An attack that fails proves nothing; one that succeeds proves that the view is not safe."
        ),
        table("Attacks on this run", headings, rows, numbers=(1, 2, 3, 4, 6), class_="stack"),
    ]
    pictured = [attack for attack in run.attacks if attack.thefts]
    if pictured and options.pictures:
        parts.append(callout("warn", "Contains training records", NOT_FOR_RELEASE))
        parts += [_pictures(attack, level, run.clients) for attack in pictured]
    elif pictured:
        parts.append(paragraph("Pictures of the records were left out of this page.", class_="muted"))
    return join(parts)


def _attack_row(attack: AttackFacts) -> list[str]:
    return [
        join([attack.view.adversary.who, tag("span", attack.view, class_="who")]),
        _share(attack.success_rate),
        _error(attack.rmse),
        _error(attack.blind_rmse),
        _share(attack.label_accuracy),
        attack.attack,
        str(attack.victims),
    ]


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value * 100:.0f} %"


def _error(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _pictures(attack: AttackFacts, level: int, clients: Clients | None) -> Markup:
    heading = tag(f"h{level}", f"{attack.view.adversary.who} ({attack.view}), attack {attack.attack}")
    names = () if clients is None else clients.names
    figures = [_theft(theft, names, attack.threshold) for theft in attack.thefts]
    return join([heading, tag("div", *figures, class_="thefts")])


def _theft(theft: Theft, names: Sequence[str], threshold: float) -> Markup:
    victim = names[theft.client] if theft.client < len(names) else f"Client {theft.client}"
    verdict = "reconstructed" if theft.rmse < threshold else "not recognised"
    record = _image(theft.truth, f"A training record of {victim}")
    stolen = _image(theft.reconstruction, f"What the attacker made of it: {verdict}, RMSE {theft.rmse:.3g}")
    return tag(
        "figure",
        tag("div", tag("div", record, "record"), tag("div", stolen, "stolen"), class_="pair"),
        tag("figcaption", f"{victim}: {verdict}", tag("span", f"RMSE {theft.rmse:.3g}", class_="small")),
    )


def _image(png: bytes, description: str) -> Markup:
    return tag("img", src=f"data:image/png;base64,{b64encode(png).decode()}", alt=description)


def audit_section(run: Run, options: Options) -> Markup:
    """Each audit in words, and its lower bound beside what is verified."""
    if not run.audits:
        if options.release:
            return paragraph("None that may be published: an audit of the released models trains on the real records.")
        command = tag("code", "fedveil audit RUN")
        return paragraph("No audit of this run is known. With the path of its directory for RUN, ", command, KEEPS)
    parts = [
        paragraph(
            "An audit trains the same spec again with planted records or clients (canaries) and lets an adversary guess"
            " which were used. What it gets right bounds ε from below; above the verified ε it would refute the proof."
            " A bound far below does not mean that the training is more private than proved. Each audit says how large"
            " a violation it would have noticed; one that would have missed half the noise proves nothing either way."
        )
    ]
    for audit in run.audits:
        parts.append(
            callout(CALLOUTS[audit.verdict], f"{audit.name}: {VERDICTS[audit.verdict]}", *audit_sentences(audit))
        )
    headings = [
        "Of what × against whom",
        "ε verified, at most",
        "ε shown, at least",
        "noise it would miss, from",
        "canaries",
        "rounds",
        "verdict",
    ]
    rows = [_audit_row(audit) for audit in run.audits]
    parts.append(table("Audit bounds", headings, rows, numbers=(1, 2, 3, 4, 5), class_="stack"))
    return join(parts)


def _audit_row(audit: AuditFacts) -> list[str]:
    return [
        audit.name,
        epsilon_text(audit.epsilon_verified),
        rounded_down(audit.epsilon_lower),
        "–" if audit.power is None else f"{rounded_down(audit.power.noise, 2)} of declared",
        f"{audit.canaries:,}",
        str(audit.rounds),
        VERDICTS[audit.verdict],
    ]
