"""Where the files of the data sets are, and proof that they are the right ones.

Every file is known by its SHA-256 and nothing is parsed before it has been checked, so a truncated download
or a changed file is found here and not as a strange result later. Files are looked for in `$FEDVEIL_DATA`
first and then in the user's cache directory; a damaged copy in one place doesn't hide a good one in the
other.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_dir

from fedveil.core.atomic import write_whole
from fedveil.core.errors import FedveilError


@dataclass(frozen=True)
class Form:
    """One way a file may be stored: its path below the data directory, and its SHA-256."""

    path: str
    sha256: str


@dataclass(frozen=True)
class SourceFile:
    """A file that a data set needs, in any one of its forms (compressed or plain)."""

    forms: tuple[Form, ...]


@dataclass(frozen=True)
class Found:
    """A file whose checksum is right."""

    path: Path
    content: bytes


def cache_directory() -> Path:
    """The user's own directory for what can be fetched or computed again."""
    return Path(user_cache_dir("fedveil"))


def fetch_directory() -> Path:
    """Where `fetch` puts files: always the user's cache, as `$FEDVEIL_DATA` may be shared or read-only."""
    return cache_directory() / "data"


def data_directories() -> tuple[Path, ...]:
    """The places where files are looked for, the first one first."""
    chosen = os.environ.get("FEDVEIL_DATA")
    return (Path(chosen).expanduser(), fetch_directory()) if chosen else (fetch_directory(),)


def sha256_of(content: bytes | bytearray | memoryview) -> str:
    """The SHA-256 as it is written in lists of checksums."""
    return hashlib.sha256(content).hexdigest()


def read_source(name: str, source: SourceFile) -> Found:
    """The first good copy of a file, or one line that says what is wrong and how to mend it."""
    complaints = []
    for path, form in candidates(source):
        try:
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            complaints.append(FedveilError(f"{path}: can't be read ({error.strerror})"))
            continue
        if sha256_of(content) == form.sha256:
            return Found(path, content)
        complaints.append(damaged(name, path, len(content)))
    raise complaints[0] if complaints else missing(name, source.forms[0].path)


def unpack(path: Path, content: bytes) -> bytes:
    """Decompress by the ending of the file's name; anything else is returned as it is."""
    try:
        match path.suffix:
            case ".gz":
                return gzip.decompress(content)
            case ".xz":
                return lzma.decompress(content)
            case _:
                return content
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise FedveilError(f"{path}: can't be decompressed ({error})") from None


def store(path: str, content: bytes) -> None:
    """Keep a file in the user's cache, under its path below a data directory."""
    target = fetch_directory() / path
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, content)


def candidates(source: SourceFile) -> Iterator[tuple[Path, Form]]:
    """Every path where a file may be, in the order of lookup."""
    for directory in data_directories():
        for form in source.forms:
            yield directory / form.path, form


def damaged(name: str, path: Path, size: int) -> FedveilError:
    """The complaint about a file with the wrong checksum."""
    return FedveilError(
        f"{path}: damaged or incomplete ({size:,} bytes, wrong SHA-256); run: fedveil data fetch {name}"
    )


class DataSetMissing(FedveilError):
    """A named data set is not on this machine."""


def missing(name: str, wanted: str) -> DataSetMissing:
    """The complaint about a file that is nowhere."""
    places = " and ".join(str(directory) for directory in data_directories())
    return DataSetMissing(
        f"data set '{name}': no {wanted} in {places}; run: fedveil data fetch {name}; which sets are"
        " here: fedveil data list"
    )
