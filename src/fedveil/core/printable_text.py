"""Texts of others, made fit for a screen."""

from __future__ import annotations


def printable(text: str) -> str:
    """A stranger's text as one line: without control characters, which a terminal would obey."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
