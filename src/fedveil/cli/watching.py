"""Whoever types a command sees how far long work is, whatever the command is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from fedveil.core.progress import watched_by

if TYPE_CHECKING:
    from fedveil.report.terminal.passing_progress import PassingProgress


@contextmanager
def watched_work() -> Iterator[None]:
    """A bar for what tells its progress and has none of its own. It is made when something is told."""
    made: PassingProgress | None = None
    with ExitStack() as opened:

        def progress(title: str, share: float) -> None:
            nonlocal made
            if made is None:
                from rich.console import Console

                from fedveil.report.terminal.passing_progress import PassingProgress

                made = opened.enter_context(PassingProgress(Console(stderr=True)))
            made(title, share)

        with watched_by(progress):
            yield
