"""The whole page: one file that loads nothing, for one run or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedveil.core.guarantee import SEEDED, CaveatKind, Guarantee, Relation, cell_name
from fedveil.core.types import Unit, View
from fedveil.report.model.number_texts import delta_text, epsilon_text
from fedveil.report.model.run_facts import Options, Run
from fedveil.report.model.score_texts import measured_text
from fedveil.report.page.assessment_sections import impact_section, nist_section, signature_section, uncovered_section
from fedveil.report.page.evidence_sections import attack_section, audit_section
from fedveil.report.page.explained_words import glossary
from fedveil.report.page.federation_section import federation_section
from fedveil.report.page.first_screen import badges, first_warnings, site_section, verdict_section, who_section
from fedveil.report.page.guarantee_section import guarantee_section
from fedveil.report.page.guarantee_sentences import guarantee_of
from fedveil.report.page.markup import Markup, bullet_list, callout, details, join, paragraph, table, tag
from fedveil.report.page.page_frame import page_footer, skip_link, whole_page
from fedveil.report.page.quality_section import quality_section
from fedveil.report.page.standing_section import standing_section
from fedveil.report.page.training_sections import participation_section, training_section

COMPARED = tuple((unit, view) for unit in Unit for view in (View.SERVER, View.RELEASED))
"""The cells that stand side by side where there is more than one run."""

Section = tuple[str, str, Callable[[], Markup]]
"""The end of its address, its title, and what makes it."""


def page_html(runs: Sequence[Run], options: Options, *, made: str, version: str) -> str:
    """The HTML of a report. `made` is when, `version` of which fedveil."""
    single = len(runs) == 1
    title = f"{runs[0].method} on {runs[0].data}" if single else f"{len(runs)} trainings side by side"
    body = [
        skip_link(),
        tag(
            "header",
            tag("p", "Privacy report", class_="kicker"),
            tag("h1", title),
            badges(runs[0]) if single else None,
            paragraph(_subtitle(runs), class_="muted"),
            None if single else _contents(runs),
        ),
        tag(
            "main",
            *([_run(runs[0], options, 2, "run1", _notice(options))] if single else _side_by_side(runs, options)),
            id="report",
        ),
        page_footer(made, version),
    ]
    return whole_page(f"Privacy report: {title}", body)


def _subtitle(runs: Sequence[Run]) -> str:
    if len(runs) > 1:
        return "What was trained, on whose data, and what each training guarantees to whom."
    return f"Run {runs[0].name}" + (f", begun {runs[0].environment['begun']}" if "begun" in runs[0].environment else "")


def _notice(options: Options) -> Markup:
    if options.release:
        return callout(
            "good",
            "Made for release",
            "This page holds what was declared before the training, guarantees, and what follows from the published"
            " models alone: how good they are on validation records, which must not be private themselves. Whatever"
            " else was computed from clients' records or tells who took part is left out.",
        )
    return callout(
        "note",
        "For you, not for release",
        paragraph(
            "No guarantee covers the training loss, the sizes of updates, the attacks and their pictures, or who took"
            " part how often: they come from raw data. ",
            tag("code", "fedveil report --for-release"),
            " makes a page without them.",
        ),
    )


def _sections(run: Run, options: Options, level: int, name: str) -> list[Section]:
    """In the order of who reads them: whoever signs, whoever checks, whoever built it."""
    sites: list[Section] = [("sites", "Sites by name", lambda: site_section(run))] if run.sites else []
    federation = run.federation
    if federation is not None:
        sites.append(("federation", "The federation", lambda: federation_section(federation)))
    return [
        ("who", "Who is protected from whom", lambda: who_section(run, options, name)),
        *sites,
        ("standing", "Where this ε stands", lambda: standing_section(run)),
        ("uncovered", "What is not covered", lambda: uncovered_section(run)),
        ("audits", "Audits: what an adversary could prove", lambda: audit_section(run, options)),
        ("attacks", "Attacks: what could be stolen", lambda: attack_section(run, options, level + 1)),
        ("guarantees", "What is guaranteed", lambda: guarantee_section(run, options)),
        ("quality", "How good the model is", lambda: quality_section(run, options)),
        ("training", "How the training went", lambda: training_section(run, options, name)),
        ("clients", "Who took part, and what is left", lambda: participation_section(run, options, name)),
        ("again", "How to reproduce it", lambda: _reproduce(run, options)),
        ("nist", "The questions of NIST SP 800-226", lambda: nist_section(run, name)),
        ("impact", "An impact assessment (GDPR, Art. 35)", lambda: impact_section(run, name)),
        ("words", "What the words mean", glossary),
        ("signature", "Signature", lambda: signature_section(run, options)),
    ]


def _run(run: Run, options: Options, level: int, name: str, notice: Markup | None = None) -> Markup:
    """One run: its first screen, what the page is for, then its sections. `level` is that of their headings."""
    parts = [
        first_warnings(run),
        tag(
            "section",
            tag(f"h{level}", "The verdict", id=f"{name}-short"),
            verdict_section(run),
            aria_labelledby=f"{name}-short",
        ),
        None if notice is None else _contents([run]),
        notice,
    ]
    for key, title, content in _sections(run, options, level, name):
        place = f"{name}-{key}"
        parts.append(tag("section", tag(f"h{level}", title, id=place), content(), aria_labelledby=place))
    return join(parts)


def _side_by_side(runs: Sequence[Run], options: Options) -> list[Markup]:
    sections = [_notice(options)]
    sections += [tag("section", tag("h2", "Side by side", id="compare"), _compared(runs), aria_labelledby="compare")]
    for number, run in enumerate(runs, 1):
        name = f"run{number}"
        title = tag("h2", f"{run.name}: {run.method} on {run.data}", id=name)
        sections.append(
            tag("section", title, badges(run), _run(run, options, 3, name), class_="run", aria_labelledby=name)
        )
    return sections


def _compared(runs: Sequence[Run]) -> Markup:
    headings = ["run", "method", "data", "state", "quality", *(f"ε {cell_name(*cell)}" for cell in COMPARED)]
    mixed = len({run.spent is None for run in runs}) > 1
    rows = []
    for number, run in enumerate(runs, 1):
        compared = [guarantee_of(run.guarantees or (), unit, view) for unit, view in COMPARED]
        state = f"{run.status.published} of {run.status.planned} rounds"
        state = state if run.status.state == "finished" else f"unfinished, {state}"
        rows.append(
            [
                tag("a", run.name, href=f"#run{number}"),
                run.method,
                run.data,
                f"{state}; {SEEDED.text}" if run.seeded else state,
                measured_text(run.figures, run.task) or "–",
                *(_marked(run, guarantee, mixed) for guarantee in compared),
            ]
        )
    deltas = ", ".join(dict.fromkeys(delta_text(run.delta) for run in runs))
    remarks = [
        f"ε at δ = {deltas}; ∞ is no protection. A record or client is added or removed, or replaced where it says so:"
        " the two can't be compared."
    ]
    if len(runs) > 1:
        remarks.append("Every ε is that of one run alone; all runs on the same records together cost more.")
    return join(
        [
            table("The runs", headings, rows, numbers=range(4, len(headings)), class_="stack"),
            paragraph(" ".join(remarks), class_="muted"),
        ]
    )


def _marked(run: Run, guarantee: Guarantee | None, mixed: bool) -> str:
    """ε with what it rests on: numbers in one column are compared."""
    if guarantee is None:
        return "–"
    marks = [epsilon_text(guarantee.epsilon)]
    if not guarantee.finite:
        return marks[0]
    marks += ["promised"] if mixed and run.spent is None else []
    marks += ["replaced"] if guarantee.relation is Relation.REPLACE_ONE else []
    marks += ["of one copy"] if guarantee.caveat(CaveatKind.ONE_COPY) is not None else []
    return ", ".join(marks) + ("" if guarantee.void is None else " (NOT private)")


def _contents(runs: Sequence[Run]) -> Markup:
    if len(runs) == 1:
        entries = [(f"run1-{key}", title) for key, title, _ in _sections(runs[0], Options(), 2, "run1")]
    else:
        entries = [("compare", "Side by side"), *((f"run{n}", run.name) for n, run in enumerate(runs, 1))]
    links = [tag("a", title, href=f"#{place}") for place, title in entries]
    return tag("nav", bullet_list(links), aria_label="Contents")


def _reproduce(run: Run, options: Options) -> Markup:
    if run.seeded is None:
        randomness = "Whether the randomness was seeded is not known."
    elif not run.seeded:
        randomness = (
            "Noise and sampling were keyed from the operating system's secure source, and the key was never written"
            " down: the same command trains anew, with other noise. That is what makes it private."
        )
    elif options.release:
        randomness = "A fixed seed was used, which is withheld here: whoever has it can take the noise off."
    else:
        randomness = "A fixed seed was used (see the spec): the same versions repeat the run to the last bit."
    versions = [tag("div", tag("dt", key), tag("dd", value)) for key, value in run.environment.items()]
    return join(
        [
            paragraph(randomness),
            paragraph("Save the spec as spec.toml and run:"),
            tag("pre", tag("code", run.command), tabindex=0, aria_label="The command"),
            tag("dl", *versions, class_="facts little") if versions else None,
            bullet_list(run.training_words),
            details("The spec, everything spelt out", tag("pre", run.spec, tabindex=0)),
        ]
    )
