"""The base of all progress reporters: a bar on a terminal, plain lines every few seconds elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, ClassVar, Self

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TaskID

from fedveil.report.terminal.wrapped_lines import paragraphs


class LiveReporter:
    """A context manager that shows a bar and prints lines. Subclasses decide what the bar and the lines say."""

    _shown: ClassVar[set[LiveReporter]] = set()  # a terminal has room for one moving bar

    def __init__(
        self, console: Console, every_seconds: float, *columns: ProgressColumn, transient: bool = False
    ) -> None:
        self._console, self._every = console, every_seconds
        self._begun = self._spoke = time.monotonic()
        moving = console.is_terminal and not console.is_dumb_terminal
        self._bar = Progress(*columns, console=console, transient=transient) if moving else None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_bar()

    def _elsewhere(self) -> bool:
        """Whether another reporter's bar is on the screen."""
        return bool(self._shown - {self})

    def _stop_bar(self) -> None:
        """Take the bar off, for good or until the next one."""
        self._shown.discard(self)
        if self._bar is not None:
            self._bar.stop()
            for task in self._bar.task_ids if self._bar.live.transient else ():
                self._bar.remove_task(task)
        self._task = None

    def _say(self, text: str) -> None:
        """One line, or several; brackets are no markup. On a terminal lines are broken between words."""
        if self._console.is_terminal:
            text = "\n".join(paragraphs(text.splitlines(), self._console.width))
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)

    def _say_sometimes(self, text: str, *, at_once: bool = False) -> None:
        """A line where there is no bar and none was said for a while, or `at_once`."""
        now = time.monotonic()
        if self._bar is None and (at_once or now - self._spoke >= self._every):
            self._spoke = now
            self._say(text)

    def _start_bar(self, description: str, total: int, completed: int = 0, **fields: Any) -> None:
        if self._bar is not None:
            self._task = self._bar.add_task(description, total=total, completed=completed, **fields)
            self._shown.add(self)
            self._bar.start()

    def _move_bar(self, **changes: Any) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, **changes)

    def _time_for(self, done: int, left: int) -> float:
        """Seconds for what is left, at the pace of what was done since the beginning."""
        return (time.monotonic() - self._begun) / max(done, 1) * left
