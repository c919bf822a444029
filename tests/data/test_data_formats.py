"""Parsers against truncated, wrong and malformed files."""

from __future__ import annotations

import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedveil.core.errors import FedveilError
from fedveil.data import census, faces
from fedveil.data.dataset import Dataset
from fedveil.data.formats import CIFAR_RECORD, parse_cifar, parse_idx, unpack

HERE = Path("some/file")
IDX = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6))


def test_idx_is_read() -> None:
    assert parse_idx(HERE, IDX, 2).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("content", [b"", IDX[:7], IDX[:-1], IDX + b"x", b"\1" + IDX[1:], b"\0\0\x0d" + IDX[3:]])
def test_bad_idx_is_refused(content: bytes) -> None:
    with pytest.raises(FedveilError, match="some/file: "):
        parse_idx(HERE, content, 2)


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_truncated_archives_are_refused(ending: str, pack: Callable[[bytes], bytes]) -> None:
    path, packed = Path(f"file{ending}"), pack(bytes(5000))
    assert unpack(path, packed) == bytes(5000)
    for spoiled in (packed[:-9], packed[:20], packed[:-12] + bytes(12), b"not compressed"):
        with pytest.raises(FedveilError, match=rf"file\{ending}: can't be decompressed"):
            unpack(path, spoiled)


def test_cifar_planes_are_red_green_blue() -> None:
    record = bytes([7]) + bytes([1] * 1024 + [2] * 1024 + [3] * 1024)
    images, labels = parse_cifar(HERE, record * 2)
    assert labels.tolist() == [7, 7]
    assert images[1, :, 5, 5].tolist() == [1, 2, 3]


@pytest.mark.parametrize("content", [b"", bytes(CIFAR_RECORD - 1), bytes(CIFAR_RECORD + 1), b"\x0a" + bytes(3072)])
def test_bad_cifar_is_refused(content: bytes) -> None:
    with pytest.raises(FedveilError, match="some/file: "):
        parse_cifar(HERE, content)


def jpeg(width: int, height: int) -> bytes:
    picture = Image.new("RGB", (width, height))
    picture.paste((200, 100, 50), (61, 61, 61 + 128, 61 + 128))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def test_faces_are_the_middle_of_the_picture() -> None:
    face = np.frombuffer(faces.crop_face(HERE, jpeg(250, 250)), dtype=np.uint8).reshape(3, 32, 32)
    assert np.abs(face[:, 1:-1, 1:-1].astype(int) - np.array([200, 100, 50])[:, None, None]).max() <= 4


@pytest.mark.parametrize("content", [b"", b"no picture", jpeg(250, 250)[:900], jpeg(200, 250)])
def test_bad_pictures_are_refused(content: bytes) -> None:
    with pytest.raises(FedveilError, match="some/file: "):
        faces.crop_face(HERE, content)


ROW = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
    "2174, 0, 40, United-States, <=50K"
)


def test_adult_rows_are_read() -> None:
    text = f"|1x3 Cross validator\n{ROW}\n\n{ROW.replace('State-gov', '?').replace('<=50K', '>50K')}.\n"
    people = census.parse_people(HERE, text)
    assert people.labels.tolist() == [0, 1]
    assert people.numbers[0].tolist() == [39, 77516, 13, 2174, 0, 40]
    assert people.codes[1, 0] == census.MISSING


@pytest.mark.parametrize(
    "line",
    [
        ROW.rpartition(",")[0],
        ROW + ", more",
        ROW.replace("39", "old"),
        ROW.replace("Bachelors", "Wizard"),
        ROW.replace("<=50K", "rich"),
        "39",
    ],
)
def test_malformed_adult_lines_are_named(line: str) -> None:
    with pytest.raises(FedveilError, match="some/file, line 2: not a row of the Adult data"):
        census.parse_people(HERE, f"{ROW}\n{line}\n")


def test_adult_without_rows_is_refused() -> None:
    with pytest.raises(FedveilError, match="no rows"):
        census.parse_people(HERE, "\n")


def test_adult_has_105_features_and_unknown_is_all_zero() -> None:
    assert census.FEATURES == 105
    people = census.parse_people(HERE, f"{ROW}\n{ROW.replace('State-gov', '?')}\n{ROW.replace('39', '50')}")
    features = census.encode(people, census.fit_scale(people))
    assert features.shape == (3, 105)
    assert features[:, 6:].sum(axis=1).tolist() == [8, 7, 8]
    assert features[1, 6:14].sum() == 0
    assert np.isfinite(features).all()


def test_adult_is_fitted_on_the_training_part_only() -> None:
    train = census.parse_people(HERE, f"{ROW}\n{ROW.replace('39', '50')}")
    others = [census.parse_people(HERE, ROW.replace("39", age)) for age in ("17", "90")]
    encodings = []
    for validation in others:
        everyone = census.joined(train, validation)
        scale = census.fit_scale(everyone[np.arange(2)])
        encodings.append(census.encode(everyone, scale))
    assert np.array_equal(encodings[0][:2], encodings[1][:2])
    assert not np.array_equal(encodings[0][2], encodings[1][2])


def test_changing_validation_rows_of_adult_leaves_the_training_part_alone(
    data_set: Callable[[str], Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same through `load`: rows that land in the validation part are changed after parsing."""
    from fedveil.data import dataset, splits

    before = data_set("adult")
    _, held_out = splits.split("adult", 48_842, 12_211)
    original = census.joined

    def altered(first: census.People, second: census.People) -> census.People:
        everyone = original(first, second)
        everyone.numbers[held_out] += 1000
        return everyone

    monkeypatch.setattr(census, "joined", altered)
    after = dataset.load("adult")
    assert before.train.inputs.equal(after.train.inputs)
    assert not before.validation.inputs.equal(after.validation.inputs)
