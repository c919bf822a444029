"""One file, over a line that breaks and from servers that lie."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest
from data_site import Site

from fedveil.data.download import Patience, SourceFailed, download
from fedveil.data.download_progress import SilentDownload

CONTENT = bytes(range(256)) * 4000
QUICK = Patience(timeout=5.0, attempts=3, pause=0.01)


def get(site: Site, part: Path, path: str = "/file") -> bytes:
    download(site.address + path, part, "file", SilentDownload(), QUICK)
    return part.read_bytes()


def test_a_file_arrives(site: Site, tmp_path: Path) -> None:
    site.files["/file"] = CONTENT
    assert get(site, tmp_path / "new" / "file.part") == CONTENT
    assert site.requests == [("/file", None)]


def test_a_broken_transfer_goes_on_where_it_stopped(site: Site, tmp_path: Path) -> None:
    site.files["/file"] = CONTENT
    site.mischief = ["break off", "break off", "error 503"]
    assert get(site, tmp_path / "file.part") == CONTENT
    half, rest = len(CONTENT) // 2, len(CONTENT) * 3 // 4
    assert [wanted for _, wanted in site.requests] == [None, f"bytes={half}-", *[f"bytes={rest}-"] * 2]


def test_bytes_of_an_earlier_run_are_used(site: Site, tmp_path: Path) -> None:
    site.files["/file"] = CONTENT
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    assert get(site, tmp_path / "file.part") == CONTENT
    assert site.requests == [("/file", "bytes=1000-")]


def test_a_complete_part_is_left_alone(site: Site, tmp_path: Path) -> None:
    site.files["/file"] = CONTENT
    (tmp_path / "file.part").write_bytes(CONTENT)
    assert get(site, tmp_path / "file.part") == CONTENT


def test_a_part_that_is_too_long_is_thrown_away(site: Site, tmp_path: Path) -> None:
    site.files["/file"] = CONTENT
    (tmp_path / "file.part").write_bytes(CONTENT + b"too much")
    assert get(site, tmp_path / "file.part") == CONTENT


def test_a_server_that_cannot_resume_sends_everything(site: Site, tmp_path: Path) -> None:
    site.files["/file"] = CONTENT
    site.mischief = ["no ranges"]
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    assert get(site, tmp_path / "file.part") == CONTENT


def test_patience_ends(site: Site, tmp_path: Path) -> None:
    site.files["/file"] = CONTENT
    site.mischief = ["error 503"] * 10
    with pytest.raises(SourceFailed, match="HTTP error 503"):
        get(site, tmp_path / "file.part")
    assert len(site.requests) == 3


def test_what_is_not_there_is_not_asked_for_twice(site: Site, tmp_path: Path) -> None:
    with pytest.raises(SourceFailed, match="HTTP error 404"):
        get(site, tmp_path / "file.part")
    assert len(site.requests) == 1


def test_an_unreachable_server_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/file"
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    with pytest.raises(SourceFailed, match="can't be reached"):
        download(address, tmp_path / "file.part", "file", SilentDownload())
    assert pauses == []
