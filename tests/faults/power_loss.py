"""What a disk holds after the power failed: what was synced, and of the rest whatever the disk got round to.

A file's content is safe when the file was synced, a name when its directory was. That is all POSIX promises; many file
systems do more. Writes that were not synced can be lost in any combination, names in the order they were made.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from shim_control import Call

Content = bytes | None
"""What a path holds: a file's bytes, or None for a directory."""


@dataclass
class File:
    """`safe` is on the disk, `pending` not yet: (offset, data) of writes, (length, None) of truncations."""

    safe: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def content(self, keeps: Callable[[], bool]) -> bytes:
        data = bytearray(self.safe)
        for at, written in self.pending:
            if keeps():
                data.extend(bytes(max(at - len(data), 0)))
                data[at:] = b"" if written is None else written + data[at + len(written) :]
        return bytes(data)

    def sync(self) -> None:
        self.safe = self.content(lambda: True)
        self.pending.clear()

    def lose(self) -> None:
        """After a sync that failed, the kernel takes what was pending for written: a later sync does not bring it."""
        self.pending.clear()


@dataclass
class Directory:
    """`pending` are names that come and go: a new entry, or None for one that goes; a rename is both, at once."""

    safe: dict[str, Directory | File] = field(default_factory=dict)
    now: dict[str, Directory | File] = field(default_factory=dict)
    pending: list[dict[str, Directory | File | None]] = field(default_factory=list)

    def change(self, names: dict[str, Directory | File | None]) -> None:
        _change(self.now, names)
        self.pending.append(names)

    def entries(self, kept: int) -> dict[str, Directory | File]:
        entries = dict(self.safe)
        for names in self.pending[:kept]:
            _change(entries, names)
        return entries

    def sync(self) -> None:
        self.safe = self.entries(len(self.pending))
        self.pending.clear()

    def lose(self) -> None:
        self.pending.clear()


def _change(entries: dict[str, Directory | File], names: dict[str, Directory | File | None]) -> None:
    for name, entry in names.items():
        if entry is None:
            entries.pop(name, None)
        else:
            entries[name] = entry


class Disk:
    """A directory as it is now, all of it safe; then `follow` what a process did to it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._inodes: dict[int, Directory | File] = {}
        self._top = self._read(root)

    def _read(self, path: Path) -> Directory:
        entries: dict[str, Directory | File] = {}
        for child in path.iterdir():
            entries[child.name] = self._read(child) if child.is_dir() else File(child.read_bytes())
            self._inodes[child.stat().st_ino] = entries[child.name]
        directory = Directory(entries, dict(entries))
        self._inodes[path.stat().st_ino] = directory
        return directory

    def adopt(self, root: Path) -> None:
        """The same disk, now found below `root`; what was not safe there is not safe here."""
        self._root = root
        self._inodes = {}
        self._find(self._top, root)

    def _find(self, directory: Directory, path: Path) -> None:
        self._inodes[path.stat().st_ino] = directory
        for name, entry in directory.now.items():
            if isinstance(entry, Directory):
                self._find(entry, path / name)
            else:
                self._inodes[(path / name).stat().st_ino] = entry

    def follow(self, calls: Iterable[Call]) -> None:
        for call in calls:
            self._follow(call)

    def _follow(self, call: Call) -> None:
        match call.what:
            case "c" | "m":
                made = File() if call.what == "c" else Directory()
                self._inodes[call.inode] = made
                directory, name = self._place(call.path)
                directory.change({name: made})
            case "w" | "t":
                file = self._inodes[call.inode]
                assert isinstance(file, File)
                file.pending.append((call.offset, call.data if call.what == "w" else None))
            case "s":
                self._inodes[call.inode].sync()
            case "x":
                self._inodes[call.inode].lose()
            case "u":
                directory, name = self._place(call.path)
                directory.change({name: None})
            case "r":
                (directory, old), (target, new) = self._place(call.path), self._place(call.target)
                assert directory is target, "files are renamed within their directory"
                directory.change({old: None, new: directory.now[old]})

    def _place(self, path: str) -> tuple[Directory, str]:
        *parents, name = Path(path).relative_to(self._root).parts
        directory = self._top
        for parent in parents:
            below = directory.now[parent]
            assert isinstance(below, Directory)
            directory = below
        return directory, name

    def everything(self) -> dict[str, Content]:
        """As the running system sees it."""
        return self._tree(self._top, lambda: True, len, "")

    def after_power_loss(self, names: bool, data: bool) -> dict[str, Content]:
        """What is not safe is kept or lost: all names, and all that was written."""
        return self._tree(self._top, lambda: data, len if names else lambda pending: 0, "")

    def after_some_loss(self, dice: random.Random) -> dict[str, Content]:
        """Each write is kept or lost by chance; of each directory's names the first few."""
        return self._tree(self._top, lambda: dice.random() < 0.5, lambda pending: dice.randint(0, len(pending)), "")

    def _tree(
        self, directory: Directory, keeps: Callable[[], bool], kept: Callable[[list[object]], int], above: str
    ) -> dict[str, Content]:
        tree: dict[str, Content] = {}
        for name, entry in sorted(directory.entries(kept(list(directory.pending))).items()):
            if isinstance(entry, File):
                tree[above + name] = entry.content(keeps)
            else:
                tree[above + name] = None
                tree |= self._tree(entry, keeps, kept, f"{above}{name}/")
        return tree


def tree_of(root: Path) -> dict[str, Content]:
    """Everything below a directory."""
    paths = sorted(root.rglob("*"))
    return {path.relative_to(root).as_posix(): None if path.is_dir() else path.read_bytes() for path in paths}


def put_tree(root: Path, tree: dict[str, Content]) -> None:
    """Make a directory hold exactly this."""
    shutil.rmtree(root)
    root.mkdir()
    for name, content in tree.items():
        if content is None:
            (root / name).mkdir()
        else:
            (root / name).write_bytes(content)
