"""What a disk is taken to hold after the power failed: what was synced, and no more unless by luck."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from power_loss import Disk, put_tree, tree_of
from shim_control import Call, Kind

FILE, FOLDER = 1001, 1002
"""Inodes of what is made."""


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    (tmp_path / "old").write_bytes(b"old content")
    return Disk(tmp_path)


def calls(root: Path, *steps: tuple[str, str, bytes]) -> Iterator[Call]:
    """Steps (what, name, data) on a file that is made, or on the folder it is in."""
    for what, name, data in steps:
        inode = root.stat().st_ino if name == "." else FOLDER if what == "m" else FILE
        target = str(root / data.decode()) if what == "r" else ""
        yield Call(what, Kind.WRITE, inode, 0, str(root / name), target, data if what == "w" else b"")


WRITTEN = (("c", "part", b""), ("w", "part", b"new"))
SYNCED, RENAMED, SAFE = ("s", "part", b""), ("r", "part", b"old"), ("s", ".", b"")


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        (WRITTEN, {"old": b"old content"}),
        ((*WRITTEN, SYNCED), {"old": b"old content"}),
        ((*WRITTEN, SYNCED, RENAMED), {"old": b"old content"}),
        ((*WRITTEN, SYNCED, RENAMED, SAFE), {"old": b"new"}),
        ((*WRITTEN, RENAMED, SAFE), {"old": b""}),
        ((*WRITTEN, ("x", "part", b""), SYNCED, RENAMED, SAFE), {"old": b""}),
        ((("u", "old", b""),), {"old": b"old content"}),
        ((("u", "old", b""), SAFE), {}),
        ((("m", "folder", b""),), {"old": b"old content"}),
        ((("m", "folder", b""), SAFE), {"old": b"old content", "folder": None}),
    ],
)
def test_only_what_was_synced_survives(
    steps: tuple[tuple[str, str, bytes], ...], kept: dict[str, bytes | None], disk: Disk, tmp_path: Path
) -> None:
    disk.follow(calls(tmp_path, *steps))
    assert disk.after_power_loss(names=False, data=False) == kept


def test_names_and_data_can_survive_without_each_other(disk: Disk, tmp_path: Path) -> None:
    disk.follow(calls(tmp_path, *WRITTEN, RENAMED))
    assert disk.after_power_loss(names=True, data=False) == {"old": b""}
    assert disk.after_power_loss(names=False, data=True) == {"old": b"old content"}
    assert disk.everything() == {"old": b"new"}
    by_chance = [disk.after_some_loss(random.Random(seed)) for seed in range(40)]
    assert {"old": b"old content"} in by_chance
    assert {"old": b"old content", "part": b"new"} in by_chance
    assert {"old": b""} in by_chance
    assert {"old": b"new"} in by_chance


def test_a_disk_that_is_put_elsewhere_still_knows_what_is_not_safe(disk: Disk, tmp_path: Path) -> None:
    disk.follow(calls(tmp_path, *WRITTEN, RENAMED))
    other = tmp_path / "other"
    other.mkdir()
    put_tree(other, disk.everything())
    assert tree_of(other) == {"old": b"new"}
    disk.adopt(other)
    assert disk.after_power_loss(names=False, data=False) == {"old": b"old content"}
