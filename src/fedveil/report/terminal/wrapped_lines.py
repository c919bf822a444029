"""Text for a terminal of 80 columns: broken between words, never inside a path, a command or a number."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

COLUMNS = 80

_JOINING = "=≤≥×"
"""ε = 0.82, record × server: what is read in one go stands on one line."""

_JOINT = "\x1f"


def wrapped(text: str, first: str = "", hanging: str = "", width: int = COLUMNS) -> list[str]:
    """The lines of one paragraph; the first begins with `first`, the others with `hanging`."""
    for sign in _JOINING:
        text = text.replace(f" {sign} ", f"{_JOINT}{sign}{_JOINT}")
    kept = textwrap.wrap(
        text.replace(" %", f"{_JOINT}%"),
        width,
        initial_indent=first,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_JOINT, " ") for line in kept] or [first.rstrip()]


def paragraphs(lines: Iterable[str], width: int = COLUMNS) -> list[str]:
    """Every line that is too long broken between words; what follows stands under where the line began, and a bit."""
    made: list[str] = []
    for line in lines:
        if len(line) <= width:
            made.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        made += wrapped(line.strip(), indent, f"{indent}  ", width)
    return made
