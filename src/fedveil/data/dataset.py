"""A data set in memory: one that is known by name, or tensors of your own.

Splits, sizes and encodings are described in docs/data.md.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fedveil.core.checks import one_of, plain_name
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Caveat
from fedveil.core.openness import Openness, features_caveats, validation_caveats
from fedveil.data.dealing import Integers
from fedveil.data.known_sets import known_set
from fedveil.data.named_set import ExampleArrays
from fedveil.data.site_records import SiteRecords, check_sites


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs [N, …], uint8 for pictures (a quarter of the memory of floats) or float32, and labels [N]."""

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def pick(self, rows: slice | Integers | list[int]) -> Examples:
        return Examples(self.inputs[rows], self.labels[rows])


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set with a training part for the clients and a validation part for measuring.

    `test` is the official test set where one exists; no experiment looks at it unless asked.
    `features` says what the records are scaled, imputed, selected and encoded with besides themselves: public constants
    alone, or statistics of private records. `validation_records` says whether those are public. `sites` are those that
    the records come from, where they have names.
    """

    name: str
    train: Examples
    validation: Examples
    classes: int
    input_shape: tuple[int, ...]
    class_names: tuple[str, ...]
    description: str = ""
    test: Examples | None = None
    features: Openness = Openness.UNDECLARED
    validation_records: Openness = Openness.UNDECLARED
    sites: tuple[SiteRecords, ...] = ()

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """What must be said with every guarantee on these records."""
        return features_caveats(self.features) + validation_caveats(self.validation_records)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the records: it tells them from others of the same name and number."""
        digest = hashlib.blake2b(digest_size=16)
        for part in (self.train, self.validation):
            for tensor in (part.inputs, part.labels):
                digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
                digest.update(tensor.contiguous().numpy().data)
        return digest.hexdigest()


def to_float(inputs: Tensor) -> Tensor:
    """What a model is fed: pictures scaled to [0, 1] when a batch is made, numbers unchanged."""
    return inputs.to(torch.float32) / 255 if inputs.dtype == torch.uint8 else inputs


def from_tensors(
    name: str,
    train: Examples,
    validation: Examples,
    classes: int | None = None,
    *,
    class_names: tuple[str, ...] = (),
    description: str = "",
    test: Examples | None = None,
    features: str = Openness.UNDECLARED,
    validation_records: str = Openness.UNDECLARED,
) -> Dataset:
    """A checked data set from anyone's tensors; `classes` is counted from the labels if it isn't given.

    Declare `features="public"` where each record was scaled, imputed, selected and encoded with public constants alone,
    "private" where statistics of private records were used; and `validation_records` likewise. What is not declared
    public is a caveat of every guarantee, and under `privacy.strict` nothing is promised.
    """
    plain_name("name", name)
    one_of("features", features, tuple(map(str, Openness)))
    one_of("validation_records", validation_records, tuple(map(str, Openness)))
    parts = {"train": train, "validation": validation} | ({"test": test} if test is not None else {})
    for part, examples in parts.items():
        _check_tensors(f"data set '{name}', {part}", examples)
    if classes is None:
        if features == Openness.PUBLIC:
            raise FedveilError(
                f"data set '{name}': give the number of classes; counted from the labels, it would not be public"
            )
        classes = 1 + max(int(examples.labels.max()) for examples in parts.values())
    if classes < 2:
        raise FedveilError(f"data set '{name}': needs at least 2 classes, not {classes}")
    if class_names and len(class_names) != classes:
        raise FedveilError(f"data set '{name}': {len(class_names)} class names for {classes} classes")
    for part, examples in parts.items():
        lowest, highest = int(examples.labels.min()), int(examples.labels.max())
        if lowest < 0 or highest >= classes:
            wrong = lowest if lowest < 0 else highest
            raise FedveilError(f"data set '{name}', {part}: label {wrong}, expected 0 to {classes - 1}")
        if examples.inputs.shape[1:] != train.inputs.shape[1:] or examples.inputs.dtype != train.inputs.dtype:
            raise FedveilError(f"data set '{name}', {part}: inputs are not of the same shape and type as in train")
    train, validation = (Examples(part.inputs.contiguous(), part.labels.contiguous()) for part in (train, validation))
    return Dataset(
        name=name,
        train=train,
        validation=validation,
        classes=classes,
        input_shape=tuple(train.inputs.shape[1:]),
        class_names=class_names or tuple(str(label) for label in range(classes)),
        description=description,
        test=test,
        features=Openness(features),
        validation_records=Openness(validation_records),
    )


def official_split(dataset: Dataset) -> Dataset:
    """The same data with all original training records for training and the official test set for validation.

    Geyer et al. and PriFedSync train on all of them; Fed-CDP keeps some apart for validation.
    """
    if dataset.test is None:
        raise FedveilError(f"data.split: the data set '{dataset.name}' has no official test set")
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
    return with_sites(dataset, arrays.sites) if arrays.sites else dataset


def with_sites(dataset: Dataset, sites: tuple[SiteRecords, ...]) -> Dataset:
    """The same records, and whose they are."""
    check_sites(sites, len(dataset.train), len(dataset.validation))
    return replace(dataset, sites=sites)


def _examples(arrays: ExampleArrays) -> Examples:
    return Examples(torch.from_numpy(arrays.inputs), torch.from_numpy(arrays.labels.astype(np.int64)))


def _check_tensors(where: str, examples: Examples) -> None:
    inputs, labels = examples.inputs, examples.labels
    parts: dict[str, object] = {"inputs": inputs, "labels": labels}
    for name, values in parts.items():
        if not isinstance(values, Tensor):
            kind = type(values).__name__
            raise FedveilError(f"{where}: {name} must be a torch tensor, not {kind}; torch.as_tensor makes one")
    if inputs.dtype not in (torch.uint8, torch.float32):
        raise FedveilError(f"{where}: inputs must be uint8 or float32, not {inputs.dtype}")
    if labels.dtype != torch.int64 or labels.ndim != 1:
        raise FedveilError(f"{where}: labels must be a vector of int64, not {labels.dtype} {tuple(labels.shape)}")
    if inputs.ndim < 2:
        raise FedveilError(f"{where}: inputs must be [examples, …], not {tuple(inputs.shape)}")
    if len(inputs) != len(labels):
        raise FedveilError(f"{where}: {len(inputs)} inputs but {len(labels)} labels")
    if not len(labels):
        raise FedveilError(f"{where}: is empty")
    if inputs.dtype == torch.float32:
        bad = ~torch.isfinite(inputs).flatten(1).all(dim=1)
        if bad.any():
            raise FedveilError(f"{where}: example {int(bad.nonzero()[0])} holds a value that is not a finite number")
