"""Telling how far the reading of a large table is: one moving line on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

ROWS_PER_LINE = 1_000_000


@contextmanager
def row_progress() -> Iterator[Callable[[int], None]]:
    """Call what this gives with the number of rows so far."""
    moving = sys.stderr.isatty()
    done = 0

    def report(rows: int) -> None:
        nonlocal done
        if moving:
            click.echo(f"\r{rows:,} rows", nl=False, err=True)
        elif rows // ROWS_PER_LINE > done // ROWS_PER_LINE:
            click.echo(f"{rows:,} rows read", err=True)
        done = rows

    try:
        yield report
    finally:
        if moving and done:
            click.echo("\r\x1b[K", nl=False, err=True)
