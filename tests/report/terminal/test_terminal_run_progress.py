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
