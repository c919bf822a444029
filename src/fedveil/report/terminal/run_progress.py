"""What a person sees while a run is going on: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Reporter(Protocol):
    """Follows a run."""

    def begin(self, title: str, rounds: int, done: int) -> None: ...

    def note(self, text: str) -> None: ...

    def round(self, done: int, rounds: int, accuracy: float | None, loss: float) -> None: ...


class Silent:
    """For the Python API and for tests."""

    def begin(self, title: str, rounds: int, done: int) -> None: ...

    def note(self, text: str) -> None: ...

    def round(self, done: int, rounds: int, accuracy: float | None, loss: float) -> None: ...


class ConsoleReporter:
    """Live on a terminal; otherwise one plain line every few seconds, and always for the first and last round."""

    def __init__(self, console: Console, every_seconds: float = 5.0) -> None:
        self._console, self._every = console, every_seconds
        self._begun = self._spoke = time.monotonic()
        self._first = 0
        self._progress: Progress | None = None
        if console.is_terminal:
            self._progress = Progress(
                TextColumn("round {task.completed:.0f}/{task.total:.0f}"),
                BarColumn(),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=console,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def begin(self, title: str, rounds: int, done: int) -> None:
        self._begun, self._first = time.monotonic(), done
        self._console.print(title, highlight=False, soft_wrap=True, markup=False)
        if self._progress is not None:
            self._task = self._progress.add_task("training", total=rounds, completed=done)
            self._progress.start()

    def note(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)

    def round(self, done: int, rounds: int, accuracy: float | None, loss: float) -> None:
        words = f"loss {loss:.4f}" if accuracy is None else f"accuracy {accuracy:.4f}  loss {loss:.4f}"
        if self._progress is not None:
            self._progress.update(self._task, completed=done, description=words)
            return
        now = time.monotonic()
        if now - self._spoke >= self._every or done in (self._first + 1, rounds):
            self._spoke = now
            left = (now - self._begun) / max(done - self._first, 1) * (rounds - done)
            self._console.print(f"round {done}/{rounds}  {words}  {left:.0f} s left", highlight=False)
