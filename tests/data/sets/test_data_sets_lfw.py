"""LFW: faces cut out of pictures, and 3,023 pictures known by one list."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from archives import tar
from data_site import Site
from PIL import Image

from fedveil.core.errors import FedveilError
from fedveil.data import sources
from fedveil.data.dataset import Dataset
from fedveil.data.fetching import available, fetch
from fedveil.data.known_sets import SETS
from fedveil.data.origins import archive_at
from fedveil.data.sets import lfw

HERE = Path("some/file")


def jpeg(width: int, height: int) -> bytes:
    picture = Image.new("RGB", (width, height))
    picture.paste((200, 100, 50), (61, 61, 61 + 128, 61 + 128))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def test_faces_are_the_middle_of_the_picture() -> None:
    face = np.frombuffer(lfw.crop_face(HERE, jpeg(250, 250)), dtype=np.uint8).reshape(3, 32, 32)
    assert np.abs(face[:, 1:-1, 1:-1].astype(int) - np.array([200, 100, 50])[:, None, None]).max() <= 4


@pytest.mark.parametrize("content", [b"", b"no picture", jpeg(250, 250)[:900], jpeg(200, 250)])
def test_bad_pictures_are_refused(content: bytes) -> None:
    with pytest.raises(FedveilError, match="some/file: "):
        lfw.crop_face(HERE, content)


@pytest.fixture
def two_faces(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A face set of two people and three pictures."""
    monkeypatch.setattr(lfw, "PICTURES_OF", {"Ada": 2, "Bob": 1})
    pictures = {path: path.encode() * 50 for path in lfw.picture_paths()}
    listing = "".join(f"{sources.sha256_of(content)}  {path}\n" for path, content in pictures.items())
    form = sources.Form("lfw/SHA256SUMS", sources.sha256_of(listing.encode()))
    monkeypatch.setattr(lfw, "LISTING", sources.SourceFile((form,)))
    monkeypatch.setitem(SETS, "lfw", replace(lfw.LFW, files=(lfw.LISTING,)))
    return pictures


def test_faces_come_out_of_an_archive(
    two_faces: dict[str, bytes], site: Site, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = archive_at(f"{site.address}/lfw.tgz", lfw.keep_faces)
    monkeypatch.setitem(SETS, "lfw", replace(SETS["lfw"], origins=(origin,)))
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
    origin = lfw.pictures_below(f"{site.address}/faces")
    monkeypatch.setitem(SETS, "lfw", replace(SETS["lfw"], origins=(origin,)))
    site.files |= {f"/faces/{path.removeprefix('lfw-deepfunneled/')}": content for path, content in two_faces.items()}
    fetch("lfw")
    assert available("lfw")
    assert not (home / "data" / "lfw" / "parts").exists()


def test_one_wrong_face_spoils_the_set(
    two_faces: dict[str, bytes], site: Site, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = archive_at(f"{site.address}/lfw.tgz", lfw.keep_faces)
    monkeypatch.setitem(SETS, "lfw", replace(SETS["lfw"], origins=(origin,)))
    site.files["/lfw.tgz"] = tar(two_faces | {"lfw-deepfunneled/Bob/Bob_0001.jpg": b"not Bob"})
    with pytest.raises(FedveilError, match="the pictures are not the expected ones"):
        fetch("lfw")
    assert not list(home.rglob("*.jpg"))


def test_every_person_is_in_both_parts_of_lfw(data_set: Callable[[str], Dataset]) -> None:
    data = data_set("lfw")
    held_out = data.validation.labels.bincount(minlength=62)
    everyone = held_out + data.train.labels.bincount(minlength=62)
    assert everyone.tolist() == list(lfw.PICTURES_OF.values())
    assert held_out.min() >= 5
    assert (held_out - everyone * 756 / 3023).abs().max() < 1


def test_a_picture_that_would_unfold_to_gigabytes_is_refused_before_it_is_decoded() -> None:
    """A PNG whose header says 30,000 × 30,000 pixels, in a few bytes."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return len(content).to_bytes(4, "big") + name + content + zlib.crc32(name + content).to_bytes(4, "big")

    size = (30_000).to_bytes(4, "big") * 2
    parts = [chunk(b"IHDR", size + bytes([8, 2, 0, 0, 0])), chunk(b"IDAT", b""), chunk(b"IEND", b"")]
    bomb = b"\x89PNG\r\n\x1a\n" + b"".join(parts)
    with pytest.raises(FedveilError, match=r"not a readable picture|30000×30000 pixels"):
        lfw.crop_face(HERE, bomb)


def test_every_origin_is_fetched_over_an_encrypted_connection() -> None:
    source = Path(lfw.__file__).read_text(encoding="utf-8")
    assert "https://" in source
    assert "http://" not in source
