"""HTML as strings: what is not marked as HTML is escaped, so no setting or name can become part of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

VOID = ("br", "img", "meta", "hr")
"""Elements without an end."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Attribute = str | int | float | bool | None


def tag(name: str, /, *children: str | None, **attributes: Attribute) -> Markup:
    """An element. `class_` is `class`, `aria_label` is `aria-label`; None and False leave an attribute out."""
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        parts.append(key if value is True else f'{key}="{escape(_attribute(value), quote=True)}"')
    opened = f"<{' '.join(parts)}>"
    if name in VOID:
        return Markup(opened)
    return Markup(f"{opened}{join(children)}</{name}>")


def _attribute(value: str | int | float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def join(children: Iterable[str | None]) -> Markup:
    """Side by side, escaped where they are plain text."""
    return Markup(
        "".join(child if isinstance(child, Markup) else escape(child) for child in children if child is not None)
    )


def paragraph(*children: str, class_: str | None = None) -> Markup:
    return tag("p", *children, class_=class_)


def bullet_list(items: Iterable[str], class_: str | None = None) -> Markup:
    return tag("ul", *(tag("li", item) for item in items), class_=class_)


def callout(kind: str, title: str, *children: str) -> Markup:
    """A remark that must not be overlooked: `good`, `note`, `warn` or `bad`. Its title says so without the colour."""
    content = [child if isinstance(child, Markup) else paragraph(child) for child in children]
    return tag("div", tag("p", title, class_="callout-title"), *content, class_=f"callout {kind}", role="note")


def details(title: str, *children: str) -> Markup:
    return tag("details", tag("summary", title), *children)


def table(
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[int] = (),
    hidden: bool = False,
    class_: str | None = None,
) -> Markup:
    """A table in a box of its own that scrolls where it is too wide. The first cell of a row names it.

    `numbers` are the columns that are set flush right; a `hidden` caption is still read aloud. Roles and labels are
    spelt out because the style stacks some tables on a phone, where browsers forget that they are tables.
    """

    def cell(column: int, content: str) -> Markup:
        kind = "number" if column in numbers else None
        if column == 0:
            return tag("th", content, scope="row", role="rowheader", class_=kind)
        return tag("td", content, role="cell", class_=kind, data_label=headings[column])

    head = [
        tag("th", heading, scope="col", role="columnheader", class_="number" if column in numbers else None)
        for column, heading in enumerate(headings)
    ]
    body = [tag("tr", *(cell(column, content) for column, content in enumerate(row)), role="row") for row in rows]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption, class_="hidden" if hidden else None),
            tag("thead", tag("tr", *head, role="row"), role="rowgroup"),
            tag("tbody", *body, role="rowgroup"),
            role="table",
            class_=class_,
        ),
        class_="scroll",
        tabindex=0,
        role="group",
        aria_label=caption,
    )
