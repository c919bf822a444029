"""A small page on how a site or a coordinator stands, which the browser reads again by itself."""

from __future__ import annotations

from fedveil.report.model.status_facts import StatusFacts
from fedveil.report.page.markup import bullet_list, paragraph, table, tag
from fedveil.report.page.page_frame import page_footer, whole_page

REFRESH = 3
"""After so many seconds the browser reads the file again."""


def status_page_html(facts: StatusFacts, *, made: str, version: str) -> str:
    """The page as of `made`. When nothing will change any more it does not refresh itself."""
    kind, state = facts.state
    numbers = range(1, len(facts.headings))
    again = (
        "Nothing will change any more."
        if facts.over
        else f"The browser reads this file again every {REFRESH} s; it is written anew while fedveil status --watch"
        " --page runs."
    )
    body = [
        tag(
            "header",
            tag("p", facts.role, class_="kicker"),
            tag("h1", facts.name),
            tag("p", tag("span", state, class_=f"badge {kind}")),
            tag(
                "span", tag("span", style=f"width:{facts.share * 100:.0f}%"), class_="meter status", aria_hidden="true"
            ),
        ),
        tag(
            "main",
            tag("dl", *(tag("div", tag("dt", key), tag("dd", value)) for key, value in facts.facts), class_="facts"),
            table(facts.caption, facts.headings, facts.rows, numbers=numbers, class_="stack") if facts.rows else None,
            bullet_list(facts.notes, class_="small") if facts.notes else None,
            paragraph(
                f"As of {made}. {again}",
                class_="muted small",
            ),
            id="report",
        ),
        page_footer(made, version),
    ]
    return whole_page(f"{facts.role} {facts.name}", body, refresh=None if facts.over else REFRESH)
