"""How far the reading of a large file is, with the time left where the file tells about how many rows it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fedveil.core.progress import tell

_NEARLY = 0.99
"""Rows are estimated, so only the end is the end."""


@contextmanager
def row_progress(path: Path) -> Iterator[Callable[[int], None]]:
    """Call what this gives with the number of rows so far."""
    from fedveil.data.row_estimates import estimated_rows

    title, total = f"reading {path.name}", estimated_rows(path)

    def report(rows: int) -> None:
        if total is not None:
            tell(title, min(rows / total, _NEARLY))

    tell(title, 0.0)
    yield report
    tell(title, 1.0)
