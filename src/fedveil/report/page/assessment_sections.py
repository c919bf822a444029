"""For the file of whoever answers for the data: NIST's questions, an impact assessment's, and a place to sign."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.core.guarantee import Relation
from fedveil.report.model.number_texts import delta_text
from fedveil.report.model.run_facts import Options, Run
from fedveil.report.page.first_screen import page_verdict
from fedveil.report.page.markup import Markup, bullet_list, callout, join, paragraph, table, tag
from fedveil.report.page.quality_section import main_fact

YOURS = "For you to write: "
"""What no software knows."""


def uncovered_section(run: Run) -> Markup:
    """What no number covers, and whom the numbers rely on."""
    return join(
        [
            paragraph("No noise of the training covers these, and no number on this page speaks of them:"),
            bullet_list(run.not_covered),
            paragraph("What the numbers rely on:"),
            bullet_list(run.trust),
        ]
    )


def nist_section(run: Run, name: str) -> Markup:
    """The parts of NIST's pyramid, from its top to its base, with where this page answers."""
    finite = [cell for cell in run.guarantees or () if cell.finite]
    relations = " or ".join(dict.fromkeys(str(cell.relation) for cell in finite)) or str(Relation.ADD_OR_REMOVE)
    seed = {True: "a fixed seed: not private", False: "the operating system's secure source", None: "not known"}
    rows = [
        ("How strong is it: ε and δ?", page_verdict(run), "who", "Who is protected from whom"),
        (
            "What is the unit of privacy?",
            f"One example of one client, and one whole client; neighbours by {relations}; δ = {delta_text(run.delta)}.",
            "guarantees",
            "What is guaranteed",
        ),
        ("What is released besides?", _few(run.not_covered), "uncovered", "What is not covered"),
        (
            "Is the mechanism right, and how useful is the result?",
            f"{' '.join(run.clips)} {_accuracy(run)}",
            "training",
            "How the training went",
        ),
        (
            "Is it implemented soundly: randomness, floating point?",
            f"Randomness: {seed[run.seeded]}. Noise is added as integers on a grid; rounding is paid for by the clip.",
            "again",
            "How to reproduce it",
        ),
        ("Has anybody tested it?", _evidence(run), "audits", "Audits: what an adversary could prove"),
        ("Whom must one trust?", _few(run.trust), "uncovered", "What is not covered"),
        (
            "How are data collected, kept and accessed?",
            f"{YOURS}records stay with their clients; how they are collected and who can read them there is not part of"
            " this software.",
            None,
            "",
        ),
    ]
    return join(
        [
            paragraph(
                "NIST SP 800-226 (2025), “Guidelines for Evaluating Differential Privacy Guarantees”, asks about every"
                " layer on which a guarantee rests, from ε down to the collection of data."
            ),
            _answers("NIST SP 800-226", rows, name),
        ]
    )


def impact_section(run: Run, name: str) -> Markup:
    """Article 35(7) of the GDPR, letter by letter."""
    rows = [
        (
            "(a) The processing and its purposes",
            f"Federated training of a model ({run.model}) by {run.method}; {run.clients_words}. Records do not leave"
            f" their clients; updates do. {YOURS}the purpose, and the legal basis.",
            "training",
            "How the training went",
        ),
        (
            "(b) Necessity and proportionality",
            f"{_accuracy(run)} {YOURS}why this model, on these data, and why not with fewer or with more noise.",
            "standing",
            "Where this ε stands",
        ),
        (
            "(c) Risks to people",
            f"{page_verdict(run)} Besides: {_few(run.not_covered)}",
            "who",
            "Who is protected from whom",
        ),
        (
            "(d) Measures against them",
            f"{' '.join(run.clips)} What a round costs is written down before it is sent, in a ledger that can't be"
            " changed unnoticed; receipts confirm the noise that was added.",
            "guarantees",
            "What is guaranteed",
        ),
        (
            "Advice, views and review: Art. 35(2), (9), (11)",
            f"{YOURS}the advice of the data protection officer, the views of those concerned, and the day of review.",
            "signature",
            "Signature",
        ),
    ]
    return join(
        [
            paragraph(
                "What Article 35(7) of the GDPR wants in a data protection impact assessment, as far as a training can"
                " answer it. It is no legal advice."
            ),
            _answers("GDPR, Article 35", rows, name),
        ]
    )


def _answers(title: str, rows: Sequence[tuple[str, str, str | None, str]], name: str) -> Markup:
    listed = [
        [asked, answer, "" if key is None else tag("a", where, href=f"#{name}-{key}")]
        for asked, answer, key, where in rows
    ]
    return table(title, ["Asked", "Answer", "More"], listed, class_="stack answers")


def _few(sentences: Sequence[str]) -> str:
    return " ".join(sentences[:4]) or "Not known."


def _accuracy(run: Run) -> str:
    figure, value = main_fact(run)
    return f"{figure[0].upper()}{figure[1:]}: {value}."


def _evidence(run: Run) -> str:
    audits = f"{len(run.audits)} audit{'s' * (len(run.audits) != 1)}"
    attacks = f"{len(run.attacks)} attack{'s' * (len(run.attacks) != 1)}"
    return f"{audits} and {attacks} of this run are known. The proof does not rest on them."


def signature_section(run: Run, options: Options) -> Markup:
    """The certificate, where there is one, and lines for a pen."""
    if run.certificate is not None:
        state = callout("good" if run.certificate.sound else "bad", "Signed certificate", run.certificate.said)
    elif options.release:
        state = paragraph("No certificate for release of this run is known.")
    else:
        command = tag("code", "fedveil certify RUN --key KEY --signatory NAME")
        state = paragraph(
            "No certificate of this run is known. With the path of its directory for RUN, ",
            command,
            " writes a signed file that anybody can check.",
        )
    lines = ("Name and role", "For (organisation)", "Decision: release, release with conditions, do not release")
    fields = [
        tag("div", tag("dt", line), tag("dd", "\u00a0"))
        for line in (*lines, "Conditions", "Place and date", "Signature")
    ]
    return join([state, paragraph(page_verdict(run), class_="verdict"), tag("dl", *fields, class_="signature")])
