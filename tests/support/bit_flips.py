"""Files with one bit that is not as it was written."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from fedveil.core.errors import FedveilError


def flipped(path: Path, count: int | None = None) -> Iterator[int]:
    """Flip one bit of a file after another, each time from the file as it was; so many of them, else all."""
    content = path.read_bytes()
    bits = range(8 * len(content))
    for bit in bits if count is None else random.Random(1).sample(bits, min(count, len(bits))):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        yield bit
    path.write_bytes(content)


def outcomes(path: Path, read: Callable[[], object], count: int | None = None) -> Counter[str]:
    """How often a flipped bit was noticed, and how often what is read stayed the same.

    Noticed is a `FedveilError`; any other error is not caught. Something else that is read without an error is counted
    as `unnoticed`.
    """
    before, counted = read(), Counter[str]()
    for _ in flipped(path, count):
        try:
            counted["no effect" if read() == before else "unnoticed"] += 1
        except FedveilError as error:
            counted["not in one line" if "\n" in str(error) else "noticed"] += 1
    return counted
