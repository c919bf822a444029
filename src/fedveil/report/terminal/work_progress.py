"""A bar with the time left for any work that knows which share of it is done; plain lines elsewhere."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fedveil.report.model.number_texts import duration_text
from fedveil.report.terminal.live_reporter import LiveReporter

_PARTS, _FEWEST = 1000, 30
"""A bar's parts, and how many must be done before it is guessed how long the others take."""


class WorkProgress(LiveReporter):
    """Call it with what is being done and the share that is done; a new title begins a new bar."""

    def __init__(self, console: Console, every_seconds: float = 10.0) -> None:
        super().__init__(
            console,
            every_seconds,
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._title = ""

    def __call__(self, title: str, share: float) -> None:
        if title != self._title:
            self._move_bar(completed=_PARTS)
            self._title, self._begun = title, time.monotonic()
            self._start_bar(title, _PARTS)
        done = round(_PARTS * min(share, 1.0))
        self._move_bar(completed=done)
        if _FEWEST <= done < _PARTS:
            left = duration_text(self._time_for(done, _PARTS - done))
            self._say_sometimes(f"{title}: {share:.0%}; at most about {left} left")

    def note(self, text: str) -> None:
        self._say(text)
