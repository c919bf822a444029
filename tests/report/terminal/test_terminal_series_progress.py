"""What a person sees while many runs are going on."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from fedveil.report.terminal.series_progress import SeriesReporter


def follow(terminal: bool) -> str:
    text = io.StringIO()
    with SeriesReporter(Console(file=text, force_terminal=terminal, width=100), every_seconds=0.0) as reporter:
        reporter.plan(runs=3, finished=1, rounds=8)
        reporter.next_run("[a]", 4)
        reporter.note("go on with: fedveil resume runs/a")
        reporter.begin("a on cancer", 4, done=2)
        reporter.round(3, 4, "accuracy 0.5")
        reporter.round(4, 4, "accuracy 0.6")
        reporter.end_run("accuracy 0.6")
        reporter.next_run("b", 4)
        reporter.begin("b on cancer", 4, done=0)
        reporter.round(1, 4, "loss 1.0")
        reporter.end_run("failed: diverged")
    return text.getvalue()


def test_plain_lines_name_the_run_its_round_and_the_time_left() -> None:
    lines = follow(terminal=False).splitlines()
    assert lines[0] == "1 of 3 runs are finished already"
    assert lines[1].startswith("2/3 [a]: round 3/4; about ")
    assert lines[3].startswith("2/3 [a]: accuracy 0.6; about ")
    assert lines[-1] == "3/3 b: failed: diverged"  # nothing is left, however early it ended


def test_what_single_runs_say_is_left_out() -> None:
    assert "fedveil resume" not in follow(terminal=False)


def test_a_terminal_gets_one_bar_for_all_runs() -> None:
    shown = follow(terminal=True)
    assert "━" in shown
    assert "2/3 [a]" in shown


def test_an_interruption_is_said_even_in_the_middle_of_a_run() -> None:
    text = io.StringIO()
    with SeriesReporter(Console(file=text)) as reporter:
        reporter.plan(1, 0, 4)
        reporter.next_run("a", 4)
        reporter.interrupted(Path("runs/mine"))
    assert text.getvalue() == "what is finished is kept; go on with the same command and --out runs/mine\n"
