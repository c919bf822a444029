"""Texts of others can't command a terminal."""

from __future__ import annotations

from fedveil.core.printable_text import printable


def test_control_characters_become_blanks_and_all_else_stays() -> None:
    assert printable("a\x1b[2J\nb\x07\u202ec") == "a [2J b  c"
    assert printable("ε = 1, nörth – [bold]") == "ε = 1, nörth – [bold]"
