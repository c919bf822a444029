"""Writing a file so that nobody ever sees half of it. Every file that must survive a crash is written here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fedveil.core.errors import FedveilError


@contextmanager
def disk_errors(where: Path) -> Iterator[None]:
    """Turn an error of the operating system (a full disk, a missing permission) into a `FedveilError` of one line."""
    try:
        yield
    except OSError as error:
        raise FedveilError(f"{error.filename or where}: {error.strerror or error}") from error


PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
"""Only the owner reads what tells who took part, or shows records."""


def private_opener(path: str, flags: int) -> int:
    """For `open`: a file that is made is its owner's alone."""
    return os.open(path, flags, PRIVATE_FILE)


def write_whole(path: Path, *parts: bytes | bytearray, private: bool = False) -> None:
    """Write a file and sync it to the disk; a reader (or a crash) sees the old one or the new one."""
    with whole_file(path, private=private) as file:
        for part in parts:
            file.write(part)


@contextmanager
def whole_file(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A file to write into, piece by piece, that takes its place when all was written; after an error it never does."""
    if not path.parent.is_dir():
        raise FedveilError(f"{path}: there is no directory {path.parent}")
    if path.is_dir():
        raise FedveilError(f"{path}: is a directory, not a file")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    with disk_errors(path):
        try:
            with open(temporary, "wb", opener=private_opener if private else None) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            sync_folder(path.parent)
        except OSError as error:
            if error.filename == str(temporary):
                error.filename = str(path)  # the name that the user gave
            raise
        finally:
            with suppress(OSError):  # what went wrong before is what is said
                temporary.unlink()


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make a directory, and those above it that are missing, and sync their names: what is in it can't get lost.

    The mode is that of the directory itself. One that is there already is a `FileExistsError`.
    """
    if not path.parent.is_dir():
        with suppress(FileExistsError):  # another process has made it in the meantime
            make_folder(path.parent)
    path.mkdir(mode)
    sync_folder(path.parent)


@contextmanager
def whole_folder(path: Path) -> Iterator[None]:
    """A new directory, or an empty one, is filled here: if that fails or is interrupted, nothing of it is left.

    What was in a directory before is never touched. Two processes can't fill the same one: what the second of them
    removed would be the first one's.
    """
    place = path.resolve()
    claim = place.with_name(f".{place.name}.making")
    try:
        with disk_errors(claim):
            make_folder(claim)
    except FedveilError as error:
        if not isinstance(error.__cause__, FileExistsError):
            raise
        raise FedveilError(f"{claim}: another process is making {path}; if it was killed, remove both") from None
    existed = path.exists()
    empty = not existed or (path.is_dir() and not any(path.iterdir()))
    try:
        yield
    except BaseException:
        if empty and path.is_dir():
            for child in path.iterdir():
                shutil.rmtree(child, ignore_errors=True) if child.is_dir() else child.unlink(missing_ok=True)
            if not existed:
                path.rmdir()
        raise
    finally:
        with suppress(OSError):
            claim.rmdir()


def sync_folder(path: Path) -> None:
    """Without this a new name in the directory could be lost when the power fails."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
