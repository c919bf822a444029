"""What a person sees while large tables are read."""

from __future__ import annotations

import time
from collections.abc import Callable

from fedveil.report.terminal.run_progress import Reporter


def reading_notes(reporter: Reporter, every_seconds: float = 5.0) -> Callable[[str, int], None]:
    """Notes how many rows of what have been read, once in a while; what is read at once gives none."""
    last = time.monotonic()

    def tell(where: str, rows: int) -> None:
        nonlocal last
        if time.monotonic() - last >= every_seconds:
            last = time.monotonic()
            reporter.note(f"reading {where}: {rows:,} rows")

    return tell
