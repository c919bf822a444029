"""Decoded records are kept, and a damaged copy is never used."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from fedveil.data import cache


def test_a_damaged_cache_is_never_used(home: Path) -> None:
    calls: list[int] = []

    def decode() -> bytes:
        calls.append(1)
        return b"decoded"

    def read() -> Tensor:
        return torch.frombuffer(cache.cached("set", "key", 7, decode), dtype=torch.uint8)

    expected = list(b"decoded")
    assert read().tolist() == expected
    assert read().tolist() == expected
    assert len(calls) == 1
    (file,) = (home / "decoded").iterdir()
    for spoiled in (file.read_bytes()[:-1], file.read_bytes() + b"x", b"", file.read_bytes()[:-1] + b"X"):
        calls.clear()
        file.write_bytes(spoiled)
        assert read().tolist() == expected
        assert len(calls) == 1
    assert list((home / "decoded").iterdir()) == [file]


def test_a_cache_that_cannot_be_written_is_no_obstacle(home: Path) -> None:
    home.write_text("a file where the directory should be")
    assert cache.cached("set", "key", 2, lambda: b"ok") == b"ok"
