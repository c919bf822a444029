"""What a person sees while many runs are going on: which one, and how long all of them will still take."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn


def duration(seconds: float) -> str:
    """Short words for a time: 45 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class SeriesReporter:
    """One bar for all rounds of all runs on a terminal; elsewhere a line per finished run, and every few seconds.

    What single runs would say (promises, how to resume one) is left out: the table at the end says it for all.
    """

    def __init__(self, console: Console, every_seconds: float = 10.0) -> None:
        self._console, self._every = console, every_seconds
        self._begun = self._spoke = time.monotonic()
        self._runs = self._number = self._left = self._trained = self._here = 0
        self._name = ""
        self._progress: Progress | None = None
        if console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.fields[run]}"), BarColumn(), TextColumn("{task.description}"), console=console
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def plan(self, runs: int, finished: int, rounds: int) -> None:
        self._begun = self._spoke = time.monotonic()
        self._runs, self._number, self._left = runs, finished, rounds
        if finished:
            self._say(f"{finished} of {runs} runs are finished already")
        if self._progress is not None and finished < runs:
            self._task = self._progress.add_task("", total=rounds, run="")
            self._progress.start()

    def next_run(self, name: str, rounds: int) -> None:
        self._number, self._name, self._here = self._number + 1, name, rounds

    def begin(self, title: str, rounds: int, done: int) -> None:
        self._pass(done)

    def note(self, text: str) -> None:
        if not self._name:
            self._say(text)

    def round(self, done: int, rounds: int, accuracy: float | None, loss: float) -> None:
        self._pass(1)
        self._trained += 1
        now = time.monotonic()
        if self._progress is None and now - self._spoke >= self._every:
            self._spoke = now
            self._say(f"{self._place()}: round {done}/{rounds}{self._time_left()}")

    def end_run(self, words: str) -> None:
        self._pass(self._here)  # a budget, or a failure, can end a run early
        self._spoke = time.monotonic()
        self._say(f"{self._place()}: {words}{self._time_left()}")
        self._name = ""

    def interrupted(self, text: str) -> None:
        self._name = ""
        self._say(text)

    def _pass(self, rounds: int) -> None:
        self._here -= rounds
        self._left -= rounds
        if self._progress is not None:
            self._progress.update(
                self._task, advance=rounds, run=self._place(), description=self._time_left().removeprefix("; ")
            )

    def _place(self) -> str:
        return f"{self._number}/{self._runs} {self._name}"

    def _time_left(self) -> str:
        if not self._trained or not self._left:
            return ""
        return f"; about {duration((time.monotonic() - self._begun) / self._trained * self._left)} left"

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)
