"""What every page has: a head that lets the browser load nothing, the style, a link past the header, a last line."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.report.page.markup import Markup, paragraph, tag
from fedveil.report.page.stylesheet import stylesheet

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The browser itself refuses whatever is not in the file."""


def whole_page(title: str, body: Sequence[str | None], *, refresh: int | None = None) -> str:
    """The HTML of a page. `refresh` is after how many seconds the browser reads the file again."""
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        None if refresh is None else tag("meta", http_equiv="refresh", content=str(refresh)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Markup(stylesheet())),
    ]
    return "<!doctype html>\n" + tag("html", tag("head", *head), tag("body", *body), lang="en") + "\n"


def skip_link() -> Markup:
    return tag("a", "Skip to the report", href="#report", class_="skip")


def page_footer(made: str, version: str) -> Markup:
    return tag("footer", paragraph(f"Made by fedveil {version}, {made}. This file loads nothing from anywhere."))
