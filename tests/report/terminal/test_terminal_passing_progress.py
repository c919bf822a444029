"""A bar for work that is sometimes long."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from fedveil.report.terminal import passing_progress
from fedveil.report.terminal.passing_progress import PassingProgress
from fedveil.report.terminal.run_progress import ConsoleReporter


def follow(monkeypatch: pytest.MonkeyPatch, *, terminal: bool, patience: float) -> str:
    monkeypatch.setattr(passing_progress, "PATIENCE_SECONDS", patience)
    text = io.StringIO()
    with PassingProgress(Console(file=text, force_terminal=terminal, width=80), every_seconds=0.0) as progress:
        for share in (0.0, 0.25, 0.5, 1.0):
            progress("calibrating", share)
        progress("accounting", 0.1)
    return text.getvalue()


def test_short_work_is_not_spoken_of(monkeypatch: pytest.MonkeyPatch) -> None:
    assert follow(monkeypatch, terminal=True, patience=60) == ""
    assert follow(monkeypatch, terminal=False, patience=60) == ""


def test_long_work_has_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = follow(monkeypatch, terminal=True, patience=0)
    assert "calibrating" in shown
    assert "━" in shown
    assert "left" in shown
    lines = follow(monkeypatch, terminal=False, patience=0).splitlines()
    assert lines[1].startswith("calibrating: 25%; about ")
    assert lines[-1].startswith("accounting: 10%; about ")


def test_a_terminal_without_moving_text_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    shown = follow(monkeypatch, terminal=True, patience=0)
    assert "━" not in shown
    assert "calibrating: 25%" in shown


def test_it_is_silent_while_another_bar_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing_progress, "PATIENCE_SECONDS", 0)
    text, other = io.StringIO(), io.StringIO()
    with ConsoleReporter(Console(file=other, force_terminal=True)) as reporter:
        reporter.begin("training", rounds=2, done=0)
        with PassingProgress(Console(file=text, force_terminal=True)) as progress:
            progress("features", 0.5)
    assert text.getvalue() == ""
