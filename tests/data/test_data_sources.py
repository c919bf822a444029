"""Files are checked before they are used, and complaints say what to do."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from fedveil.core.errors import FedveilError
from fedveil.data import sources
from fedveil.data.dataset import load
from fedveil.data.sources import unpack


def test_missing_files_say_where_and_what_to_do(home: Path) -> None:
    with pytest.raises(FedveilError, match="run: fedveil data fetch mnist") as caught:
        load("mnist")
    assert str(home) in str(caught.value)


@pytest.mark.parametrize("spoil", [lambda content: content[:-1], lambda content: b"x" + content[1:]])
def test_damaged_files_are_named(home: Path, spoil: Callable[[bytes], bytes]) -> None:
    path = home / "data" / "adult" / "adult.data"
    path.parent.mkdir(parents=True)
    path.write_bytes(spoil(b"39, State-gov, 77516\n" * 10))
    with pytest.raises(FedveilError, match=r"adult\.data: damaged or incomplete .* fedveil data fetch adult"):
        load("adult")


def test_a_damaged_copy_does_not_hide_a_good_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = b"the right content"
    source = sources.SourceFile((sources.Form("one/file", sources.sha256_of(good)),))
    monkeypatch.setenv("FEDVEIL_DATA", str(home / "mine"))
    for place, content in (("mine", b"damaged"), ("data", good)):
        (home / place / "one").mkdir(parents=True)
        (home / place / "one" / "file").write_bytes(content)
    assert sources.read_source("one", source) == sources.Found(home / "data" / "one" / "file", good)


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_truncated_archives_are_refused(ending: str, pack: Callable[[bytes], bytes]) -> None:
    path, packed = Path(f"file{ending}"), pack(bytes(5000))
    assert unpack(path, packed) == bytes(5000)
    for spoiled in (packed[:-9], packed[:20], packed[:-12] + bytes(12), b"not compressed"):
        with pytest.raises(FedveilError, match=rf"file\{ending}: can't be decompressed"):
            unpack(path, spoiled)
