"""Long lines on a narrow terminal."""

from __future__ import annotations

from fedveil.report.terminal.hanging_lines import hanging


def test_what_is_too_long_hangs_below_and_loses_nothing() -> None:
    text = "short\n  " + "a guess is right; " * 10
    lines = hanging(text, 40).split("\n")
    assert max(map(len, lines)) <= 40
    assert lines[0] == "short"
    assert all(line.startswith(" " * 6) for line in lines[2:])
    assert " ".join(hanging(text, 40).split()) == " ".join(text.split())


def test_a_hash_stays_in_one_piece() -> None:
    assert "f" * 64 in hanging(f"plan 'study', {'f' * 64}", 40)


def test_empty_lines_stay() -> None:
    assert hanging("a\n\nb", 10) == "a\n\nb"
