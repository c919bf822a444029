"""Lines that are too long for a terminal, broken at spaces; what follows hangs a little further in."""

from __future__ import annotations

import textwrap


def hanging(text: str, width: int) -> str:
    """The text in lines of at most this width; words that are longer stay whole, so that they can be copied."""
    return "\n".join(_hung(line, width) for line in text.split("\n"))


def _hung(line: str, width: int) -> str:
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    if len(line) <= width or width <= 2 * len(indent):
        return line
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
