"""A place for what an interrupted attack has done, so that the same command goes on."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedveil.data.sources import cache_directory


@contextmanager
def unfinished_attack(facts: Mapping[str, Any]) -> Iterator[Path]:
    """A directory that belongs to one attack and no other; it is removed when the block ends well.

    Finished groups of victims stand for attacking them again, so all that they follow from is in the `facts`.
    """
    told = json.dumps({**facts, "version": version("fedveil")}, sort_keys=True, default=str)
    place = cache_directory() / "attacks" / hashlib.sha256(told.encode()).hexdigest()[:24]
    yield place
    shutil.rmtree(place, ignore_errors=True)
