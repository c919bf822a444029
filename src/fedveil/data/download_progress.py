"""Telling the user how a download goes: a moving bar on a terminal, plain lines in a log, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress


class DownloadProgress(Protocol):
    """What `fetch` reports to. One piece of work at a time: begin, advance …, end."""

    def say(self, line: str) -> None:
        """Something worth knowing, such as a source that can't be reached."""

    def begin(self, label: str, total: int | None, done: int) -> None:
        """A piece of work of `total` bytes (if known) starts, `done` of them from an earlier attempt."""

    def advance(self, amount: int) -> None:
        """`amount` more bytes are there."""

    def end(self) -> None:
        """The piece of work is over, well or not."""


class SilentDownload:
    """Reports to nobody."""

    def say(self, line: str) -> None: ...

    def begin(self, label: str, total: int | None, done: int) -> None: ...

    def advance(self, amount: int) -> None: ...

    def end(self) -> None: ...


@dataclass
class PlainLines:
    """One line when a piece of work starts and one at each further quarter: readable in a log."""

    stream: TextIO
    _label: str = field(default="", init=False)
    _total: int = field(default=0, init=False)
    _done: int = field(default=0, init=False)

    def say(self, line: str) -> None:
        print(line, file=self.stream, flush=True)

    def begin(self, label: str, total: int | None, done: int) -> None:
        self._label, self._total, self._done = label, total or 0, done
        size = f"{total / 1e6:.1f} MB" if total else "size unknown"
        self.say(f"{label}: {size}" + (f", {done / 1e6:.1f} MB already here" if done else ""))

    def advance(self, amount: int) -> None:
        before, self._done = self._done, self._done + amount
        if self._total and 4 * before // self._total < (quarter := 4 * self._done // self._total):
            self.say(f"{self._label}: {25 * quarter} %")

    def end(self) -> None: ...


@dataclass
class Bar:
    """A bar on a terminal, one per piece of work."""

    rich: RichProgress

    def say(self, line: str) -> None:
        self.rich.console.print(line, markup=False, highlight=False)

    def begin(self, label: str, total: int | None, done: int) -> None:
        self.rich.add_task(label, total=total, completed=done)

    def advance(self, amount: int) -> None:
        if self.rich.task_ids:
            self.rich.advance(self.rich.task_ids[-1], amount)

    def end(self) -> None:
        if self.rich.task_ids:
            self.rich.stop_task(self.rich.task_ids[-1])


@contextmanager
def progress_on(stream: TextIO) -> Iterator[DownloadProgress]:
    """Bars if the stream is a terminal, plain lines otherwise."""
    # Here and not above: every command reads the data sets' declarations, and only this one draws bars.
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as RichProgress

    console = Console(file=stream)
    if not console.is_terminal:
        yield PlainLines(stream)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with RichProgress(*columns, console=console) as rich:
        yield Bar(rich)
