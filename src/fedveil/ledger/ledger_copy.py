"""Look at a ledger that another process holds, by reading a copy."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from fedveil.ledger.anchor import anchor_path
from fedveil.ledger.ledger_errors import LedgerUnusable

COPIES, PAUSE = 10, 0.05
"""How often a ledger that is being written is copied, and the seconds in between."""

_Read = TypeVar("_Read")


def read_copy(path: Path, read: Callable[[Path], _Read]) -> _Read:
    """What `read` makes of a copy of the ledger, in a folder of its own that is gone afterwards.

    What is copied while an entry is being written does not hang together, which the copy's own check notices; then
    another copy is made.
    """
    for remaining in reversed(range(COPIES)):
        with TemporaryDirectory() as folder:
            copy = Path(folder) / path.name
            for one, target in ((path, copy), (anchor_path(path), anchor_path(copy))):
                shutil.copyfile(one, target)
            try:
                return read(copy)
            except LedgerUnusable:
                if not remaining:
                    raise
        time.sleep(PAUSE)
    raise AssertionError("a copy is read or refused")
