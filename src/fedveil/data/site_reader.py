"""Reading the records of any site in the same way, whatever form they have."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedveil.core.checks import one_of
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.openness import Openness
from fedveil.core.tasks import Classification, Regression, Task
from fedveil.data.class_labels import class_indices, classes_of, counted_classes, is_hashable
from fedveil.data.dataset import scaled_labels
from fedveil.data.examples import Examples, check_examples
from fedveil.data.picture_folders import read_picture_folder
from fedveil.data.picture_format import PictureFormat
from fedveil.data.raw_records import RawRecords, raw_records
from fedveil.data.schema import Schema
from fedveil.data.site_records import check_site_names
from fedveil.data.site_tables import SiteProgress, examples_by_site, own_table

SiteInput = Examples | RawRecords
"""What was read: with labels as a training takes them (tables, scaled numbers), or as they were given."""


@dataclass(frozen=True)
class LabelRule:
    """The task, and which label stands for which class where that is not the place itself or the name."""

    task: Task
    classes: tuple[Hashable, ...] | None = None

    def examples(self, where: str, records: SiteInput) -> Examples:
        """Checked examples, their labels as a training takes them."""
        if isinstance(records, RawRecords):
            records = self._labelled(where, records)
        check_examples(where, records, self.task)
        return records

    def _labelled(self, where: str, records: RawRecords) -> Examples:
        if isinstance(self.task, Classification):
            classes = self.classes if self.classes is not None else classes_of(self.task, records.labels)
            return Examples(records.inputs, class_indices(where, records.labels, classes))
        try:
            numbers = records.labels.astype(np.float64)
        except (TypeError, ValueError):
            raise FedveilError(f"{where}: labels must be numbers, in the unit of the task") from None
        if np.isnan(numbers).any():
            raise FedveilError(f"{where}: example {int(np.isnan(numbers).argmax())} has no number as its label")
        return Examples(records.inputs, scaled_labels(numbers, self.task))


@dataclass(frozen=True)
class SiteReader:
    """What all sites have in common: a schema, or a task or classes; and the size of pictures."""

    schema: Schema | None = None
    task: Task | None = None
    classes: tuple[Hashable, ...] | None = None
    pictures: PictureFormat | None = None
    progress: SiteProgress | None = None

    def __post_init__(self) -> None:
        if self.schema is not None and not isinstance(self.schema, Schema):
            raise ArgumentError("schema", f"must be a schema or the path of one, not {self.schema!r}")
        if self.task is not None and not isinstance(self.task, Classification | Regression):
            raise ArgumentError("task", f"must be Classification(…) or Regression(…), not {self.task!r}")
        if self.pictures is not None and not isinstance(self.pictures, PictureFormat):
            raise ArgumentError("pictures", f"must be PictureFormat(height=…, width=…), not {self.pictures!r}")
        if self.schema is not None and (self.task is not None or self.classes is not None):
            raise ArgumentError("schema", "says what is predicted; leave out task and classes")
        if self.task is not None and self.classes is not None:
            raise ArgumentError("classes", "are named by the task already; give one of both")
        for label in self.classes or ():
            if not is_hashable(label):
                raise ArgumentError("classes", f"a {type(label).__name__} can't be a label: {label!r}")
        if self.classes is not None and len(set(map(str, self.classes))) != len(self.classes):
            raise ArgumentError("classes", f"has one twice: {list(self.classes)}")

    def sites(self, sites: object) -> dict[str, SiteInput]:
        """The records of each site, from a mapping of names, or from one table that names the site of each row."""
        if isinstance(sites, Mapping):
            check_site_names(tuple(sites))
            return {name: self.records(site_called(name), records) for name, records in sites.items()}
        if self.schema is None or not _is_table(sites):
            raise ArgumentError(
                "sites", f"must be names and records, as {{'north': …, 'south': …}}, not {type(sites).__name__}"
            )
        return dict(examples_by_site(sites, self.schema, progress=self.progress))

    def records(self, where: str, records: object) -> SiteInput:
        """One site's records, or others that stand under the name `where` in messages."""
        if isinstance(records, str | Path) and Path(records).is_dir():
            return read_picture_folder(where, Path(records), self.pictures)
        if _is_table(records):
            if self.schema is None:
                raise FedveilError(f"{where}: a table needs a schema, which says what its columns are")
            return own_table(where, records, self.schema, self.progress)
        if self.schema is not None:
            raise FedveilError(f"{where}: with a schema records must be a table, not {type(records).__name__}")
        if isinstance(records, Examples) and isinstance(self.task, Regression):
            return records
        return raw_records(where, records)

    def openness(self, features: str | None) -> Openness:
        """What features are made with: as declared, or as the schema says."""
        one_of("features", features or Openness.UNDECLARED, tuple(map(str, Openness)))
        if self.schema is None:
            return Openness(features or Openness.UNDECLARED)
        if features not in (None, self.schema.openness):
            raise ArgumentError("features", f"are {self.schema.openness} by the schema, not {features}; leave it out")
        return self.schema.openness

    def label_rule(self, parts: Mapping[str, SiteInput], features: Openness) -> LabelRule:
        """What labels mean: as it was given, or as all labels together say."""
        given = self.schema.task if self.schema is not None else self.task
        if given is not None:
            return LabelRule(given)
        classes = self.classes
        if classes is None:
            if features is Openness.PUBLIC:
                raise ArgumentError("classes", "must be named; counted from the labels, they would not be public")
            classes = counted_classes({where: part.labels for where, part in _raw(parts).items()})
        if len(classes) < 2:
            raise ArgumentError("classes", f"there is one class only, {classes[0]!r}, so there is nothing to learn")
        return LabelRule(Classification(tuple(map(str, classes))), classes)


def site_called(name: str) -> str:
    """What a site is called in messages."""
    return f"site '{name}'"


def _raw(parts: Mapping[str, SiteInput]) -> dict[str, RawRecords]:
    return {where: part for where, part in parts.items() if isinstance(part, RawRecords)}


def _is_table(records: object) -> bool:
    return isinstance(records, str | Path) or type(records).__name__ == "DataFrame"


def check_alike(parts: Mapping[str, Examples]) -> None:
    """Refuse records of different shapes or types: one model is trained on all of them."""
    (first, example), *others = parts.items()
    for name, examples in others:
        mine, theirs = _form(examples), _form(example)
        if mine != theirs:
            raise FedveilError(f"{name}: records are {mine}, and those of {first} are {theirs}")


def _form(examples: Examples) -> str:
    kind = str(examples.inputs.dtype).removeprefix("torch.")
    return f"{kind} {list(examples.inputs.shape[1:])}"
