"""What a run says while it goes on."""

from __future__ import annotations

import io

from rich.console import Console

from fedveil.report.terminal.run_progress import ConsoleReporter


def test_brackets_in_notes_are_printed_as_they_are() -> None:
    text = io.StringIO()
    with ConsoleReporter(Console(file=text)) as reporter:
        reporter.note("50 rounds × [drawn with probability 0.05: 1 × Gaussian(z = 0.5)]; PLD")
    assert "[drawn with probability 0.05: 1 × Gaussian(z = 0.5)]" in text.getvalue()


def follow(terminal: bool, every_seconds: float) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=100)
    with ConsoleReporter(console, every_seconds) as reporter:
        reporter.begin("fed-cdp on [cancer]", rounds=5, done=1)
        for done in (2, 3, 4, 5):
            reporter.round(done, 5, "loss 1.2500" if done == 3 else "accuracy 0.5000  loss 1.2500")
    return text.getvalue()


def test_plain_lines_tell_the_first_and_the_last_round_and_others_after_a_while() -> None:
    title, *lines = follow(terminal=False, every_seconds=60.0).splitlines()
    assert title == "fed-cdp on [cancer]"
    assert [line.partition("  ")[0] for line in lines] == ["round 2/5", "round 5/5"]
    assert lines[-1] == "round 5/5  accuracy 0.5000  loss 1.2500  0 s left"
    every = follow(terminal=False, every_seconds=0.0).splitlines()[1:]
    assert [line.partition("  ")[0] for line in every] == [f"round {done}/5" for done in (2, 3, 4, 5)]
    assert every[1].startswith("round 3/5  loss 1.2500  ")


def test_a_terminal_gets_a_bar_that_ends_with_the_run() -> None:
    shown = follow(terminal=True, every_seconds=0.0)
    assert "━" in shown
    assert "round 5/5" in shown
    assert "s left" not in shown
    assert shown.endswith("\x1b[?25h")  # the cursor is back
