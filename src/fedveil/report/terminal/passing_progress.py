"""A bar for work that is sometimes long and mostly not: it comes after two seconds, and goes when the work is done."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from fedveil.report.model.number_texts import duration_text
from fedveil.report.terminal.live_reporter import LiveReporter

PATIENCE_SECONDS = 2.0
"""So long nobody needs to be told anything."""

_PARTS = 1000


class PassingProgress(LiveReporter):
    """Call it with what is being done and the share that is done; what another bar is shown for needs none."""

    def __init__(self, console: Console, every_seconds: float = 5.0) -> None:
        super().__init__(
            console,
            every_seconds,
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            transient=True,
        )
        self._title = ""

    def __call__(self, title: str, share: float) -> None:
        if title != self._title:
            self._close()
            self._title, self._begun = title, time.monotonic()
        if share >= 1:
            self._close()
        elif time.monotonic() - self._begun >= PATIENCE_SECONDS and not self._elsewhere():
            done = max(round(_PARTS * share), 1)
            if self._task is None:
                self._start_bar(title, _PARTS)
            self._move_bar(completed=done)
            left = duration_text(self._time_for(done, _PARTS - done))
            self._say_sometimes(f"{title}: {share:.0%}; about {left} left")

    def _close(self) -> None:
        self._stop_bar()
        self._title = ""
