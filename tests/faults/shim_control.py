"""The shim from Python: compile it, arm it, and read its log."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")


class Kind(IntEnum):
    """Calls that a fault can strike, in the order of shim.c."""

    CREATE = 0  # open with O_CREAT
    OPEN = 1
    WRITE = 2
    SYNC = 3  # fsync, fdatasync
    RENAME = 4
    UNLINK = 5  # rmdir too
    TRUNCATE = 6
    MKDIR = 7


class Action(IntEnum):
    """What happens at the n-th call, in the order of shim.c."""

    NONE = 0
    FAIL = 1
    FAIL_ON = 2  # this call, and from then on all calls of the kinds in `reach`
    DIE_BEFORE = 3
    DIE_AFTER = 4
    TEAR_DIE = 5  # half is written, then the process is killed
    TEAR_FAIL = 6  # half is written and said so, the next write fails
    SHORT = 7  # half is written and said so, as is any system's right


@dataclass(frozen=True)
class Fault:
    """At the `nth` call of a kind: this."""

    kind: Kind = Kind.CREATE
    nth: int = 0
    action: Action = Action.NONE
    error: int = 0
    reach: frozenset[Kind] = frozenset()


NO_FAULT = Fault()


@dataclass(frozen=True)
class Call:
    """A line of the log: a call that came ("k"), was struck ("!"), or what one changed."""

    what: str
    kind: Kind
    inode: int
    offset: int
    path: str
    target: str
    data: bytes


def why_not() -> str | None:
    """Why there is no shim here, or None."""
    if not hasattr(os, "fork") or not Path("/proc/self/fd").is_dir():
        return "faults are injected by LD_PRELOAD, on Linux"
    return None if _compiler() else "no C compiler, so nothing can be put below SQLite"


def _compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def compile_shim(directory: Path) -> Path:
    library = directory / "shim.so"
    compiler = _compiler()
    assert compiler is not None
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, timeout=120)
    return library


def arm(prefix: Path, log: Path, fault: Fault) -> None:
    """From now on this process's calls below `prefix` are counted, logged and struck."""
    reach = sum(1 << kind for kind in fault.reach)
    begin = ctypes.CDLL(None).faults_begin
    begin.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_long, ctypes.c_int, ctypes.c_int]
    begin.argtypes += [ctypes.c_ulong]
    begin(os.fsencode(prefix), os.fsencode(log), fault.kind, fault.nth, fault.action, fault.error, reach)


def disarm() -> None:
    ctypes.CDLL(None).faults_end()


_HEAD = struct.Struct("<cBQqIII")


def read_log(log: Path) -> list[Call]:
    return list(_calls(log.read_bytes())) if log.exists() else []


def _calls(content: bytes) -> Iterator[Call]:
    at = 0
    while at < len(content):
        what, kind, inode, offset, length, path_length, target_length = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        parts = []
        for size in (path_length, target_length, length):
            parts.append(content[at : at + size])
            at += size
        path, target, data = parts
        yield Call(what.decode(), Kind(kind), inode, offset, os.fsdecode(path), os.fsdecode(target), data)
