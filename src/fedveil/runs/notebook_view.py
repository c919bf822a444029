"""A run's end and an account as a notebook shows them: sentences, the table of guarantees, figures over rounds."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

from fedveil.core.errors import FedveilError
from fedveil.core.scores import MAIN_FIGURES
from fedveil.report.model.guarantee_headline import headline
from fedveil.report.model.guarantee_rows import GuaranteeRows
from fedveil.report.model.number_texts import delta_text
from fedveil.report.page.markup import Markup, join, paragraph, table, tag
from fedveil.runs.files import RunFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedveil.core.guarantee import Guarantee
    from fedveil.runs.account import Account
    from fedveil.runs.result import Result


FLUSH_LEFT = Markup("<style>.fedveil :is(th, td, caption) { text-align: left; padding: .1em .6em; }</style>")
"""Notebooks set tables flush right, and names are no numbers."""


def account_html(account: Account) -> Markup:
    """What is accounted for, the headline, and the table: what was spent, or what is promised."""
    table = account.spent or account.promised
    return tag(
        "div",
        FLUSH_LEFT,
        paragraph(account.title),
        paragraph(tag("strong", headline(table.guarantees))),
        guarantees_html(table.guarantees),
        class_="fedveil",
    )


def result_html(result: Result) -> Markup:
    """The whole."""
    return tag(
        "div",
        FLUSH_LEFT,
        paragraph(result.quality),
        paragraph(tag("strong", headline(result.guarantees))),
        guarantees_html(result.guarantees),
        _picture(result),
        paragraph("run: ", tag("code", str(result.run))),
        class_="fedveil",
    )


def guarantees_html(guarantees: Sequence[Guarantee]) -> Markup:
    """Every cell with its notes."""
    made = GuaranteeRows.of(guarantees)
    rows = [[row.name, row.epsilon, row.guess, " ".join(map(str, row.notes))] for row in made.rows]
    title = f"at δ = {delta_text(guarantees[0].delta)}"
    shared = tag("ul", *(tag("li", text) for text in made.shared)) if made.shared else None
    return join(
        [
            table(title, ["of what × against whom", "ε", "right guess", "notes"], rows),
            tag("ol", *(tag("li", text) for text in made.notes)),
            shared,
        ]
    )


def _picture(result: Result) -> Markup | None:
    """The main figure over rounds, if the run's directory still has them."""
    try:
        events = [event for event in RunFiles(result.run).read_events() if event.get("event") == "round"]
    except (FedveilError, OSError):
        return None
    main = next((figure for figure in MAIN_FIGURES if any(figure.key in event for event in events)), None)
    if main is None:
        return None
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    measured = [(event["round"] + 1, event[main.key]) for event in events if main.key in event]
    picture = Figure(figsize=(4.5, 2.6), layout="constrained")
    axes = picture.subplots()
    axes.plot(*zip(*measured, strict=True), marker="." if len(measured) < 40 else None)
    axes.set(xlabel="round", ylabel=main.name)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))  # there is no half of a round
    content = io.BytesIO()
    picture.savefig(content, format="png", dpi=110)
    encoded = base64.b64encode(content.getvalue()).decode()
    return tag("img", src=f"data:image/png;base64,{encoded}", alt=f"{main.name} over rounds")
