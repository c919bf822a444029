"""What a person sees while many runs are going on: which one, and how long all of them will still take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, TextColumn

from fedveil.core.guarantee import Guarantee
from fedveil.core.site_guarantees import SiteGuarantees
from fedveil.report.model.number_texts import duration_text
from fedveil.report.terminal.live_reporter import LiveReporter


class SeriesReporter(LiveReporter):
    """One bar for all rounds of all runs on a terminal; elsewhere a line per finished run, and every few seconds.

    What single runs would say (promises, how to resume one) is left out: the table at the end says it for all.
    """

    def __init__(self, console: Console, every_seconds: float = 10.0) -> None:
        super().__init__(
            console, every_seconds, TextColumn("{task.fields[run]}"), BarColumn(), TextColumn("{task.description}")
        )
        self._runs = self._number = self._left = self._trained = self._here = 0
        self._name = ""

    def plan(self, runs: int, finished: int, rounds: int) -> None:
        self._begun = self._spoke = time.monotonic()
        self._runs, self._number, self._left = runs, finished, rounds
        if finished:
            self._say(f"{finished} of {runs} runs are finished already")
        if finished < runs:
            self._start_bar("", rounds, run="")

    def next_run(self, name: str, rounds: int) -> None:
        self._number, self._name, self._here = self._number + 1, name, rounds

    def promise(self, guarantees: Sequence[Guarantee], sites: SiteGuarantees | None) -> None:
        """The table at the end says it for all."""

    def begin(self, title: str, rounds: int, done: int) -> None:
        self._pass(done)

    def note(self, text: str) -> None:
        if not self._name:
            self._say(text)

    def round(self, done: int, rounds: int, measured: str) -> None:
        self._pass(1)
        self._trained += 1
        self._say_sometimes(f"{self._place()}: round {done}/{rounds}{self._time_left()}")

    def end_run(self, text: str) -> None:
        self._pass(self._here)  # a budget, or a failure, can end a run early
        self._spoke = time.monotonic()
        self._say(f"{self._place()}: {text}{self._time_left()}")
        self._name = ""
        if self._number == self._runs:
            self._stop_bar()

    def interrupted(self, directory: Path) -> None:
        self._name = ""
        self._say(f"what is finished is kept; go on with the same command and --out {directory}")

    def _pass(self, rounds: int) -> None:
        self._here -= rounds
        self._left -= rounds
        self._move_bar(advance=rounds, run=self._place(), description=self._time_left().removeprefix("; "))

    def _place(self) -> str:
        return f"{self._number}/{self._runs} {self._name}"

    def _time_left(self) -> str:
        if not self._trained or not self._left:
            return ""
        return f"; about {duration_text(self._time_for(self._trained, self._left))} left"
