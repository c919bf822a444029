"""What is publicly known of pictures at sites: their size, their colours, their classes.

It stands where tables have a schema, in a file of its own:

    [pictures]
    height = 28
    width = 28
    grey = true
    classes = ["cat", "dog"]

A site's pictures are a folder with a folder for each class, which are brought to the size; or a NumPy file (.npz) with
`inputs` (bytes, N × colours × height × width) and `labels` (names of classes, or their numbers in this order). Either
way a picture's numbers depend on that picture alone.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedveil.core.checks import FieldError, count
from fedveil.core.errors import FedveilError
from fedveil.core.openness import Openness
from fedveil.core.tasks import Classification
from fedveil.data.examples import Examples
from fedveil.data.picture_folders import read_picture_folder
from fedveil.data.picture_format import PictureFormat
from fedveil.data.raw_records import RawRecords, raw_records
from fedveil.data.site_reader import LabelRule

LARGEST_SIDE = 4096
KEYS = ("height", "width", "grey", "classes")


@dataclass(frozen=True, kw_only=True)
class PictureForm:
    """To what every picture is brought, and what it may show."""

    height: int
    width: int
    classes: tuple[str, ...]
    grey: bool = False

    def __post_init__(self) -> None:
        for field in ("height", "width"):
            count(field, getattr(self, field))
            if getattr(self, field) > LARGEST_SIDE:
                raise FieldError(field, f"must be at most {LARGEST_SIDE}, not {getattr(self, field)}")
        if len(self.classes) < 2 or len(set(self.classes)) < len(self.classes) or not all(self.classes):
            raise FieldError("classes", "must name two classes or more, each once")

    @property
    def task(self) -> Classification:
        return Classification(self.classes)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        return (1 if self.grey else 3, self.height, self.width)

    @property
    def openness(self) -> Openness:
        return Openness.PUBLIC

    def table(self) -> dict[str, Any]:
        """As its file has it."""
        return {"pictures": {key: list(self.classes) if key == "classes" else getattr(self, key) for key in KEYS}}

    def read(self, path: Path) -> Examples:
        """A site's pictures: a folder, or a NumPy file."""
        where = str(path)
        if path.is_dir():
            format = PictureFormat(height=self.height, width=self.width, grey=self.grey)
            strange = sorted({one.name for one in path.iterdir() if one.is_dir()} - set(self.classes))
            named = [name for name in strange if not name.startswith(".")]
            if named:
                raise FedveilError(f"{where}: the folder {named[0]!r} is none of the classes {', '.join(self.classes)}")
            records = read_picture_folder(where, path, format)
        else:
            records = self._arrays(path)
        return LabelRule(self.task, self.classes).examples(where, records)

    def _arrays(self, path: Path) -> RawRecords:
        try:
            with np.load(path, allow_pickle=False) as file:
                inputs, labels = file["inputs"], file["labels"]
        except (OSError, ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile):
            raise FedveilError(f"{path}: not a folder of pictures, and no NumPy file with inputs and labels") from None
        if inputs.dtype != np.uint8 or inputs.shape[1:] != self.input_shape:
            shape = " × ".join(map(str, ("N", *self.input_shape)))
            raise FedveilError(f"{path}: inputs must be bytes, {shape}, not {inputs.dtype} {inputs.shape}")
        if labels.ndim == 1 and labels.dtype.kind in "iu":
            if len(labels) and not (labels.min() >= 0 and labels.max() < len(self.classes)):
                raise FedveilError(f"{path}: labels must be numbers from 0 to {len(self.classes) - 1}")
            labels = np.array(self.classes, dtype=object)[labels]
        return raw_records(str(path), (inputs, labels))


def read_picture_form(table: object) -> PictureForm:
    """The form that a table of a file says; `FieldError` where it is none."""
    if not isinstance(table, dict):
        raise FieldError("pictures", "must be a table")
    for key in table:
        if key not in KEYS:
            raise FieldError(f"pictures.{key}", f"unknown key; there are {', '.join(KEYS)}")
    for key in ("height", "width", "classes"):
        if key not in table:
            raise FieldError(f"pictures.{key}", "is missing")
    classes, grey = table["classes"], table.get("grey", False)
    if not isinstance(classes, list) or not all(isinstance(one, str) for one in classes):
        raise FieldError("pictures.classes", "must be a list of names")
    if not isinstance(grey, bool):
        raise FieldError("pictures.grey", "must be true or false")
    try:
        return PictureForm(height=table["height"], width=table["width"], classes=tuple(classes), grey=grey)
    except FieldError as error:
        raise FieldError(f"pictures.{error.field}", error.problem) from None
