"""What adversaries really got: attacks with pictures, audits with their bounds."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from fedveil.core.words import rounded_down
from fedveil.report.model.audit_sentences import audit_lines
from fedveil.report.model.run_facts import Attack, Options, Run, Theft
from fedveil.report.page.markup import Markup, callout, join, paragraph, table, tag
from fedveil.report.page.sentences import WHO, epsilon_word

NOT_FOR_RELEASE = (
    "These pictures show real training records of the named clients. They are for you, not for release:"
    " --without-pictures leaves them out, --for-release leaves out all attacks."
)

KEEPS = " makes one and keeps its result."


def attacks(run: Run, options: Options, level: int) -> Markup:
    """Each attack in a sentence, its numbers, and a few records beside what was made of them."""
    if options.release:
        return paragraph("Left out of a page for release: an attack's success is measured on real training records.")
    if not run.attacks:
        command = tag("code", "fedveil attack RUN --view on_device")
        return paragraph("No attack on this run is known. With the path of its directory for RUN, ", command, KEEPS)
    headings = ["Adversary", "Reconstructed", "Error (RMSE)", "Constant guess", "Labels right", "Attack", "Victims"]
    rows = [_attack_row(attack.told) for attack in run.attacks]
    numbers = (1, 2, 3, 4, 6)
    found = [
        paragraph(
            "An attacker with the given view of the last published model tried to reconstruct the training records of"
            " some clients. An attack that fails proves nothing; one that succeeds proves that the view is not safe."
        ),
        table("Attacks on this run", headings, rows, numbers=numbers, class_="stack"),
    ]
    shown = [(attack, theft) for attack in run.attacks for theft in attack.thefts]
    if shown and options.pictures:
        found.append(callout("warn", "Contains training records", NOT_FOR_RELEASE))
        for attack in run.attacks:
            if attack.thefts:
                found.append(_pictures(attack, level))
    elif shown:
        found.append(paragraph("Pictures of the records were left out of this page.", class_="muted"))
    return join(found)


def _attack_row(told: Mapping[str, Any]) -> list[str]:
    view = str(told.get("view", "?"))
    who = join([WHO[view][0], tag("span", view, class_="who")]) if view in WHO else view
    return [
        who,
        _share(told.get("success_rate")),
        _number(told.get("rmse")),
        _number(told.get("blind_rmse")),
        _share(told.get("label_accuracy")),
        str(told.get("attack", "?")),
        str(told.get("victims", "?")),
    ]


def _share(value: Any) -> str:
    return f"{value * 100:.0f} %" if isinstance(value, int | float) else "–"


def _number(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, int | float) else "–"


def _pictures(attack: Attack, level: int) -> Markup:
    view = str(attack.told.get("view", "?"))
    threshold = attack.told.get("threshold")
    who = WHO[view][0] if view in WHO else view
    figures = [_theft(theft, threshold) for theft in attack.thefts]
    heading = tag(f"h{level}", f"{who} ({view}), attack {attack.told.get('attack', '?')}")
    return join([heading, tag("div", *figures, class_="thefts")])


def _theft(theft: Theft, threshold: Any) -> Markup:
    succeeded = isinstance(threshold, int | float) and theft.rmse < threshold
    verdict = "reconstructed" if succeeded else "not recognised"
    return tag(
        "figure",
        tag(
            "div",
            tag(
                "div",
                _image(theft.truth, f"A training record of client {theft.client}"),
                "record",
            ),
            tag(
                "div",
                _image(theft.found, f"What the attacker made of it: {verdict}, RMSE {theft.rmse:.3g}"),
                "stolen",
            ),
            class_="pair",
        ),
        tag("figcaption", f"Client {theft.client}: {verdict}", tag("span", f"RMSE {theft.rmse:.3g}", class_="small")),
    )


def _image(png: bytes, words: str) -> Markup:
    return tag("img", src=f"data:image/png;base64,{b64encode(png).decode()}", alt=words)


def audits(run: Run, options: Options) -> Markup:
    """Each audit in words, and its lower bound beside what is verified."""
    if not run.audits:
        if options.release:
            return paragraph("None that may be published: an audit of the released models trains on the real records.")
        command = tag("code", "fedveil audit RUN")
        return paragraph("No audit of this run is known. With the path of its directory for RUN, ", command, KEEPS)
    found = [
        paragraph(
            "An audit trains the same spec again with planted records or clients (canaries) and lets an adversary guess"
            " which were used. What it gets right bounds ε from below; above the verified ε it would refute the proof."
            " A bound far below does not mean that the training is more private than proved."
        )
    ]
    rows = []
    for audit in run.audits:
        try:
            lines = audit_lines(audit)
            row = [
                f"{audit['unit']} × {audit['view']}",
                epsilon_word(audit["epsilon_verified"]),
                rounded_down(audit["epsilon_lower"]),
                f"{audit['canaries']:,}",
                str(audit["rounds"]),
                _verdict(audit),
            ]
        except (KeyError, TypeError, ValueError):
            found.append(paragraph("An audit's result is not of this version and was left out.", class_="muted"))
            continue
        rows.append(row)
        broken = audit["holds"] is False
        found.append(callout("bad" if broken else "note", f"{row[0]}: {row[-1]}", *lines))
    headings = ["Of what × against whom", "ε verified, at most", "ε shown, at least", "canaries", "rounds", "verdict"]
    if rows:
        found.append(table("Audit bounds", headings, rows, numbers=(1, 2, 3, 4), class_="stack"))
    return join(found)


def _verdict(audit: Mapping[str, Any]) -> str:
    if audit["holds"] is False:
        return "the promise is broken"
    return "nothing contradicts the promise" if audit["promised"] else "nothing was promised"
