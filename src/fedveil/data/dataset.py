"""A data set in memory: one that is known by name, or tensors of your own.

Splits, sizes and encodings are described in docs/data.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedveil.core.checks import one_of, plain_name
from fedveil.core.deferred import torch
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.guarantee import Caveat
from fedveil.core.openness import Openness
from fedveil.core.tasks import Classification, Regression, Task
from fedveil.data.class_labels import class_indices
from fedveil.data.examples import Examples as Examples
from fedveil.data.examples import check_labels, check_tensors, examples_digest
from fedveil.data.examples import to_float as to_float
from fedveil.data.known_sets import known_set
from fedveil.data.named_set import ExampleArrays
from fedveil.data.outlines import Outline, no_official_test
from fedveil.data.raw_records import raw_records
from fedveil.data.schema import Schema
from fedveil.data.site_records import SiteRecords, check_sites

if TYPE_CHECKING:
    from torch import Tensor

STRATA = 10
"""Equal parts of the public range of a number that stand for classes where records are dealt by label."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set with a training part for the clients and a validation part for measuring.

    `task` is what a model is to say of a record. `sites` are named holders of the records, where there are any.
    `test` is the official test set where one exists; no experiment looks at it unless asked.
    `features` says what the records are scaled, imputed, selected and encoded with besides themselves: public constants
    alone, or statistics of private records. `validation_records` says whether those are public.
    """

    name: str
    train: Examples
    validation: Examples
    task: Task
    input_shape: tuple[int, ...]
    description: str = ""
    test: Examples | None = None
    features: Openness = Openness.UNDECLARED
    validation_records: Openness = Openness.UNDECLARED
    sites: tuple[SiteRecords, ...] = ()
    schema: Schema | None = None  # what a table was encoded with; a run keeps it for those who use its model

    @property
    def class_names(self) -> tuple[str, ...]:
        """None where the task is a number."""
        return self.task.class_names if isinstance(self.task, Classification) else ()

    @property
    def classes(self) -> int:
        return len(self.class_names)

    @property
    def tokens(self) -> bool:
        """Whether records are whole numbers that an embedding looks up."""
        return self.train.inputs.dtype == torch.int64

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """What must be said with every guarantee on these records."""
        return self.outline.caveats

    @cached_property
    def outline(self) -> Outline:
        """All that dividing it over clients and promising something depends on."""
        return Outline(
            name=self.name,
            task=self.task,
            input_shape=self.input_shape,
            tokens=self.tokens,
            train=strata(self.train.labels, self.task).numpy(),
            validation=strata(self.validation.labels, self.task).numpy(),
            test=None if self.test is None else strata(self.test.labels, self.task).numpy(),
            sites=self.sites,
            features=self.features,
            validation_records=self.validation_records,
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the records: it tells them from others of the same name and number."""
        return examples_digest(self.train, self.validation)


def from_tensors(
    name: str,
    train: Examples | tuple[object, object],
    validation: Examples | tuple[object, object],
    classes: int | None = None,
    *,
    class_names: tuple[str, ...] = (),
    task: Task | None = None,
    description: str = "",
    test: Examples | tuple[object, object] | None = None,
    features: str = Openness.UNDECLARED,
    validation_records: str = Openness.UNDECLARED,
) -> Dataset:
    """A checked data set from anyone's tensors, or pairs (inputs, labels) of arrays.

    `classes` is counted from the labels if it isn't given. Labels of a pair may be names among `class_names`.
    `task` is given in place of `classes` and their names; without it labels are classes. For a `Regression` labels are
    float32 in [−1, 1]: `scaled_labels` makes them from numbers in their own unit.
    Declare `features="public"` where each record was scaled, imputed, selected and encoded with public constants alone,
    "private" where statistics of private records were used; and `validation_records` likewise. What is not declared
    public is a caveat of every guarantee, and under `privacy.strict` nothing is promised.
    """
    plain_name("name", name)
    one_of("features", features, tuple(map(str, Openness)))
    one_of("validation_records", validation_records, tuple(map(str, Openness)))
    given = {"train": train, "validation": validation} | ({"test": test} if test is not None else {})
    names = task.class_names if isinstance(task, Classification) else class_names
    parts = {part: _as_examples(f"data set '{name}', {part}", records, names) for part, records in given.items()}
    first = parts["train"].inputs
    if task is not None and (classes is not None or class_names):
        raise FedveilError(f"data set '{name}': give a task, or classes and class_names, not both")
    for part, examples in parts.items():
        check_tensors(f"data set '{name}', {part}", examples, task)
        if examples.inputs.shape[1:] != first.shape[1:] or examples.inputs.dtype != first.dtype:
            raise FedveilError(f"data set '{name}', {part}: inputs are not of the same shape and type as in train")
    if task is None:
        labels = [examples.labels for examples in parts.values()]
        task = _classes(name, labels, classes, class_names, public=features == Openness.PUBLIC)
    for part, examples in parts.items():
        check_labels(f"data set '{name}', {part}", examples.labels, task)
    plain = {part: Examples(one.inputs.contiguous(), one.labels.contiguous()) for part, one in parts.items()}
    return Dataset(
        name=name,
        train=plain["train"],
        validation=plain["validation"],
        task=task,
        input_shape=tuple(first.shape[1:]),
        description=description,
        test=plain.get("test"),
        features=Openness(features),
        validation_records=Openness(validation_records),
    )


def _as_examples(where: str, records: object, class_names: tuple[str, ...]) -> Examples:
    """Tensors as they are; of arrays, what a training takes: whole numbers or names as classes, others as numbers."""
    if (
        isinstance(records, Examples)
        and isinstance(records.inputs, torch.Tensor)
        and isinstance(records.labels, torch.Tensor)
    ):
        return records
    raw = raw_records(where, records)
    if raw.labels.dtype.kind in "UO" and class_names:
        return Examples(raw.inputs, class_indices(where, raw.labels, class_names))
    try:
        labels = torch.from_numpy(np.array(raw.labels.tolist()))
    except TypeError:
        raise FedveilError(f"{where}: labels are no numbers; name the classes, class_names=(…)") from None
    return Examples(raw.inputs, labels.to(torch.float32 if labels.is_floating_point() else torch.int64))


def scaled_labels(numbers: Tensor | NDArray[np.number[Any]] | Sequence[float], task: Regression) -> Tensor:
    """Numbers in their own unit as labels: the task's public range becomes [−1, 1], and what lies outside is clipped.

    The range is a public fact, so the labels of one record depend on no other record.
    """
    if not isinstance(task, Regression):
        raise ArgumentError("task", f"must be Regression(low, high), not {task!r}")
    try:
        values = torch.as_tensor(numbers).to(torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError("numbers", f"must be numbers in the unit of the task, not {numbers!r:.60}") from None
    bad = torch.isnan(values).nonzero()
    if len(bad):
        raise FedveilError(f"numbers: number {int(bad[0, 0])} is not a number")
    return ((values - task.low) / task.half_width - 1).clamp(-1, 1).to(torch.float32)


def strata(labels: Tensor, task: Task) -> Tensor:
    """What stands for a record's class where records are dealt by label: for a number, its part of the public range."""
    if isinstance(task, Classification):
        return labels
    return ((labels.double() + 1) / 2 * STRATA).long().clamp(0, STRATA - 1)


def possible_labels(task: Task) -> Tensor:
    """Every class; of a number, the two ends of its public range."""
    return torch.arange(task.outputs) if isinstance(task, Classification) else torch.tensor([-1.0, 1.0])


def official_split(dataset: Dataset) -> Dataset:
    """The same data with all original training records for training and the official test set for validation.

    Geyer et al. and PriFedSync train on all of them; Fed-CDP keeps some apart for validation.
    """
    if dataset.test is None:
        raise no_official_test(dataset.name)
    whole = Examples(
        torch.cat([dataset.train.inputs, dataset.validation.inputs]),
        torch.cat([dataset.train.labels, dataset.validation.labels]),
    )
    return replace(dataset, train=whole, validation=dataset.test, test=None, sites=())


def load(name: str) -> Dataset:
    """A data set known by its name (`fedveil data list`), read from checked files."""
    wanted = known_set(name)
    arrays = wanted.load()
    dataset = from_tensors(
        wanted.name,
        _examples(arrays.train),
        _examples(arrays.validation),
        len(wanted.class_names),
        class_names=wanted.class_names,
        description=wanted.description,
        test=None if arrays.test is None else _examples(arrays.test),
        features=wanted.features,
        validation_records=wanted.validation_records,
    )
    dataset = replace(dataset, schema=wanted.schema)
    return with_sites(dataset, arrays.sites) if arrays.sites else dataset


def with_sites(dataset: Dataset, sites: tuple[SiteRecords, ...]) -> Dataset:
    """The same records, and whose they are."""
    check_sites(sites, len(dataset.train), len(dataset.validation))
    return replace(dataset, sites=sites)


def _examples(arrays: ExampleArrays) -> Examples:
    return Examples(torch.from_numpy(arrays.inputs), torch.from_numpy(arrays.labels.astype(np.int64)))


def _classes(
    name: str, labels: Sequence[Tensor], classes: int | None, class_names: tuple[str, ...], *, public: bool
) -> Classification:
    """The classes as they were given, or as the labels count them."""
    if classes is None and public:
        raise FedveilError(
            f"data set '{name}': give the number of classes; counted from the labels, it would not be public"
        )
    count = _counted(name, labels) if classes is None else classes
    if count < 2:
        raise FedveilError(f"data set '{name}': needs at least 2 classes, not {count}")
    if class_names and len(class_names) != count:
        raise FedveilError(f"data set '{name}': {len(class_names)} class names for {count} classes")
    return Classification(class_names or tuple(str(label) for label in range(count)))


def _counted(name: str, labels: Sequence[Tensor]) -> int:
    """How many classes labels name; a class of which there is no record at all would be a guess."""
    different = sorted({label for part in labels for label in np.unique(part.numpy()).tolist()})
    lowest, highest = different[0], different[-1]
    if lowest >= 0 and len(different) <= highest:
        gap = next(label for label in range(highest) if label not in different)
        raise FedveilError(
            f"data set '{name}': labels go from {lowest} to {highest}, and no record has label {gap}; give the number"
            " of classes, or labels from 0 on"
        )
    return int(highest) + 1
