"""Pictures at sites: one public form, folders and NumPy files that give the same bytes, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fedveil.core.errors import FedveilError
from fedveil.data.picture_form import PictureForm
from fedveil.data.record_form import form_toml, form_words, parse_form, read_form, read_records, shape_of

TEXT = '[pictures]\nheight = 8\nwidth = 8\ngrey = true\nclasses = ["ring", "disc"]\n'
FORM = PictureForm(height=8, width=8, grey=True, classes=("ring", "disc"))


def write_pictures(folder: Path, number: int, side: int = 8) -> np.ndarray:
    generator = np.random.default_rng(number)
    pictures = generator.integers(0, 256, (number, side, side), dtype=np.uint8)
    for place, picture in enumerate(pictures):
        home = folder / ("ring", "disc")[place % 2]
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(home / f"{place:03d}.png")
    return pictures


def test_a_form_is_written_in_one_way_and_read_back(tmp_path: Path) -> None:
    (tmp_path / "form.toml").write_text(TEXT)
    form = read_form(tmp_path / "form.toml")
    assert form == FORM
    assert parse_form(form_toml(form), "form") == form
    assert (shape_of(form), form.task.class_names) == ((1, 8, 8), ("ring", "disc"))
    assert form_words(form) == "ring or disc from grey pictures of 8 × 8"


def test_a_folder_and_a_file_of_the_same_pictures_are_the_same_records(tmp_path: Path) -> None:
    pictures = write_pictures(tmp_path / "site", 6)
    order = [1, 3, 5, 0, 2, 4]  # by class, as folders are read: disc, ring
    for name, labels in (("names", np.array(["disc"] * 3 + ["ring"] * 3)), ("numbers", np.array([1] * 3 + [0] * 3))):
        np.savez(tmp_path / f"{name}.npz", inputs=pictures[order][:, None], labels=labels)
        ours, theirs = read_records(tmp_path / "site", FORM), read_records(tmp_path / f"{name}.npz", FORM)
        assert torch.equal(ours.inputs, theirs.inputs)
        assert torch.equal(ours.labels, theirs.labels)
    assert ours.inputs.dtype == torch.uint8
    assert ours.labels.tolist() == [1, 1, 1, 0, 0, 0]


def test_pictures_of_any_size_are_brought_to_the_public_one(tmp_path: Path) -> None:
    write_pictures(tmp_path / "site", 2, side=20)
    assert read_records(tmp_path / "site", FORM).inputs.shape == (2, 1, 8, 8)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("height = 8", "height = 0"), "pictures.height"),
        (("height = 8", "height = 99999"), "at most 4096"),
        (("height = 8\n", ""), "pictures.height: is missing"),
        (("grey = true", 'grey = "yes"'), "pictures.grey"),
        (('["ring", "disc"]', '["ring"]'), "two classes"),
        (('["ring", "disc"]', '["ring", "ring"]'), "each once"),
        (('["ring", "disc"]', "[1, 2]"), "list of names"),
        (("grey = true", "gray = true"), "unknown key"),
        (("[pictures]", "target = 'x'\n[pictures]"), "is not said of pictures"),
    ],
)
def test_a_form_that_is_none_is_refused(change: tuple[str, str], words: str) -> None:
    with pytest.raises(FedveilError, match=words):
        parse_form(TEXT.replace(*change), "form")


def test_a_folder_of_another_class_is_named(tmp_path: Path) -> None:
    write_pictures(tmp_path / "site", 2)
    (tmp_path / "site" / "square").mkdir()
    with pytest.raises(FedveilError, match="the folder 'square' is none of the classes"):
        read_records(tmp_path / "site", FORM)


@pytest.mark.parametrize("kind", ["text", "pickle", "floats", "shape", "labels", "lacking"])
def test_a_file_that_is_not_what_the_form_says_is_refused(tmp_path: Path, kind: str) -> None:
    path, inputs = tmp_path / "site.npz", np.zeros((2, 1, 8, 8), dtype=np.uint8)
    match kind:
        case "text":
            path.write_text("not a file of arrays")
        case "pickle":
            np.savez(path, inputs=inputs, labels=np.array([{}, {}], dtype=object))
        case "floats":
            np.savez(path, inputs=inputs.astype(float), labels=np.array([0, 1]))
        case "shape":
            np.savez(path, inputs=inputs[:, :, :7], labels=np.array([0, 1]))
        case "labels":
            np.savez(path, inputs=inputs, labels=np.array([0, 2]))
        case "lacking":
            np.savez(path, inputs=inputs)
    with pytest.raises(FedveilError):
        read_records(path, FORM)
