"""Decoded arrays kept between runs, because decompressing or decoding pictures takes seconds each time.

A cache file is the SHA-256 of its content followed by the content. Its name holds a key made from the
checksums of the sources, so other sources or another decoding make another file. A damaged file is ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path

from fedveil.core.atomic import write_whole
from fedveil.core.errors import FedveilError
from fedveil.data import sources

_DIGEST_SIZE = hashlib.sha256().digest_size


def cached(name: str, key: str, size: int, decode: Callable[[], bytes | bytearray]) -> bytearray:
    """The `size` bytes that `decode` makes, from the cache if it holds a sound copy."""
    short_key = sources.sha256_of(key.encode())[:16]
    path = sources.cache_directory() / "decoded" / f"{name}-{short_key}.bin"
    content = _read(path, size)
    if content is None:
        content = bytearray(decode())
        # A full disk or a read-only home must not stop the run: the cache only saves time.
        with contextlib.suppress(OSError, FedveilError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, hashlib.sha256(content).digest(), content)
    return content


def _read(path: Path, size: int) -> bytearray | None:
    try:
        with path.open("rb") as file:
            digest = file.read(_DIGEST_SIZE)
            content = bytearray(size)
            whole = file.readinto(content) == size and not file.read(1)
    except OSError:
        return None
    return content if whole and hashlib.sha256(content).digest() == digest else None
