"""What a person sees while a run is going on: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from fedveil.core.guarantee import Guarantee
from fedveil.core.site_guarantees import SiteGuarantees
from fedveil.report.terminal.guarantee_lines import brief_lines, table_lines
from fedveil.report.terminal.live_reporter import LiveReporter
from fedveil.report.terminal.site_lines import site_lines

WIDE_TERMINAL = 120
"""From so many columns on there is room for everything."""


class Reporter(Protocol):
    """Follows a run."""

    def promise(self, guarantees: Sequence[Guarantee], sites: SiteGuarantees | None) -> None: ...

    def begin(self, title: str, rounds: int, done: int) -> None: ...

    def note(self, text: str) -> None: ...

    def round(self, done: int, rounds: int, measured: str) -> None: ...


class SilentReporter:
    """For the Python API and for tests."""

    def promise(self, guarantees: Sequence[Guarantee], sites: SiteGuarantees | None) -> None: ...

    def begin(self, title: str, rounds: int, done: int) -> None: ...

    def note(self, text: str) -> None: ...

    def round(self, done: int, rounds: int, measured: str) -> None: ...


class ConsoleReporter(LiveReporter):
    """Live on a terminal; otherwise one plain line every few seconds, and always for the first and last round.

    `verbose` shows the whole table of what is promised; else its headline and what spoils it.
    """

    def __init__(self, console: Console, every_seconds: float = 5.0, *, verbose: bool = False) -> None:
        rounds = TextColumn("round {task.completed:.0f}/{task.total:.0f}", table_column=Column(no_wrap=True))
        measured = Column(no_wrap=True, overflow="ellipsis")  # its end is what can be missed on a narrow terminal
        whole = Column(no_wrap=True, min_width=5)
        left = (TimeRemainingColumn(compact=True, table_column=whole), TextColumn("left", table_column=whole))
        description = TextColumn("{task.description}", table_column=measured)
        wide = (rounds, BarColumn(), description, TimeElapsedColumn(), *left)
        narrow = (rounds, BarColumn(bar_width=10), *left, description)
        super().__init__(console, every_seconds, *(narrow if console.width < WIDE_TERMINAL else wide))
        self._first, self._verbose = 0, verbose

    def promise(self, guarantees: Sequence[Guarantee], sites: SiteGuarantees | None) -> None:
        lines = table_lines("promised", guarantees) if self._verbose else brief_lines("promised", guarantees)
        self._say("\n".join([*lines, *site_lines(sites)]))

    def begin(self, title: str, rounds: int, done: int) -> None:
        self._begun, self._first = time.monotonic(), done
        self._say(title)
        self._start_bar("training", rounds, done)

    def note(self, text: str) -> None:
        self._say(text)

    def round(self, done: int, rounds: int, measured: str) -> None:
        self._move_bar(completed=done, description=measured)
        left = self._time_for(done - self._first, rounds - done)
        self._say_sometimes(
            f"round {done}/{rounds}  {measured}  {left:.0f} s left", at_once=done in (self._first + 1, rounds)
        )
