"""The five data sets of the experiments, and the form in which a user brings another one.

Splits, sizes and encodings are described in docs/data.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedveil.core.errors import FedveilError
from fedveil.data import census, sources
from fedveil.data.cache import cached
from fedveil.data.dealing import Integers
from fedveil.data.faces import PICTURES_OF, load_faces
from fedveil.data.formats import CIFAR_CLASSES, CIFAR_RECORD, parse_cifar, parse_idx, unpack
from fedveil.data.splits import split, stratified_split


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

    `test` is the official test set where one exists (MNIST, CIFAR-10); no experiment looks at it unless
    asked.
    """

    name: str
    train: Examples
    validation: Examples
    classes: int
    input_shape: tuple[int, ...]
    class_names: tuple[str, ...]
    description: str = ""
    test: Examples | None = None

    @cached_property
    def fingerprint(self) -> str:
        """Tells other records from these, though they be as many under the same name."""
        found = hashlib.blake2b(digest_size=16)
        for part in (self.train, self.validation):
            for tensor in (part.inputs, part.labels):
                found.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
                found.update(tensor.contiguous().numpy().data)
        return found.hexdigest()


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
) -> Dataset:
    """A checked data set from anyone's tensors; `classes` is counted from the labels if it isn't given."""
    parts = {"train": train, "validation": validation} | ({"test": test} if test is not None else {})
    for part, examples in parts.items():
        _check_tensors(f"data set '{name}', {part}", examples)
    if classes is None:
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
    )


def official_split(dataset: Dataset) -> Dataset:
    """The same data with all original training records for training and the official test set for validation.

    Geyer et al. and PriFedSync train on all 60,000 (50,000) pictures; Fed-CDP keeps 10,000 of them apart.
    """
    if dataset.test is None:
        raise FedveilError(f"data set '{dataset.name}' has no official test set")
    whole = Examples(
        torch.cat([dataset.train.inputs, dataset.validation.inputs]),
        torch.cat([dataset.train.labels, dataset.validation.labels]),
    )
    return replace(dataset, train=whole, validation=dataset.test, test=None)


def load(name: str) -> Dataset:
    """One of `mnist`, `cifar10`, `lfw`, `adult`, `cancer`, read from checked files."""
    sources.check_name(name)
    return _LOADERS[name]()


def _load_mnist() -> Dataset:
    arrays = []
    for source, dimensions in zip(sources.MNIST, (3, 1, 3, 1), strict=True):
        found = sources.read_source("mnist", source)
        arrays.append(parse_idx(found.path, unpack(found.path, found.content), dimensions))
    images, labels, test_images, test_labels = arrays
    everything = _examples(images[:, None], labels)
    return from_tensors(
        "mnist",
        everything.pick(slice(0, 50_000)),
        everything.pick(slice(50_000, 60_000)),
        10,
        description="handwritten digits, 28×28 grey",
        test=_examples(test_images[:, None], test_labels),
    )


def _load_cifar10() -> Dataset:
    key = " ".join(source.forms[0].sha256 for source in sources.CIFAR10)
    content = cached("cifar10", key, 60_000 * CIFAR_RECORD, _decompress_cifar)
    everything = _examples(*parse_cifar(sources.fetch_directory() / "cifar10", content))
    return from_tensors(
        "cifar10",
        everything.pick(slice(0, 40_000)),
        everything.pick(slice(40_000, 50_000)),
        10,
        class_names=CIFAR_CLASSES,
        description="small photographs of ten kinds of things, 32×32 colour",
        test=everything.pick(slice(50_000, 60_000)),
    )


def _decompress_cifar() -> bytes:
    def one(source: sources.SourceFile) -> bytes:
        found = sources.read_source("cifar10", source)
        return unpack(found.path, found.content)

    with ThreadPoolExecutor() as pool:
        return b"".join(pool.map(one, sources.CIFAR10))


def _load_lfw() -> Dataset:
    images, people = load_faces()
    train, validation = stratified_split("lfw", people, 756)
    everything = _examples(images, people)
    return from_tensors(
        "lfw",
        everything.pick(train),
        everything.pick(validation),
        class_names=tuple(name.replace("_", " ") for name in PICTURES_OF),
        description="faces of 62 people, 32×32 colour",
    )


def _load_adult() -> Dataset:
    parts = []
    for source in sources.ADULT:
        found = sources.read_source("adult", source)
        parts.append(census.parse_people(found.path, found.content.decode("ascii")))
    people = census.joined(*parts)
    rows, held_out = split("adult", len(people.labels), 12_211)
    train, validation = people[rows], people[held_out]
    scale = census.fit_scale(train)
    return from_tensors(
        "adult",
        _examples(census.encode(train, scale), train.labels),
        _examples(census.encode(validation, scale), validation.labels),
        class_names=census.INCOMES,
        description="census records: does this person earn more than 50,000 dollars a year?",
    )


def _load_cancer() -> Dataset:
    from sklearn.datasets import load_breast_cancer  # a second to import, and only needed here

    features, labels = load_breast_cancer(return_X_y=True)
    rows, held_out = stratified_split("cancer", labels, 143)
    mean, deviation = features[rows].mean(axis=0), features[rows].std(axis=0)
    everything = _examples(((features - mean) / deviation).astype(np.float32), labels)
    return from_tensors(
        "cancer",
        everything.pick(rows),
        everything.pick(held_out),
        class_names=("malignant", "benign"),
        description="measurements of breast tumours: malignant or benign?",
    )


SCALED_TOGETHER = frozenset({"adult", "cancer"})
"""Data sets whose features were scaled by statistics of all their training records."""

_LOADERS: dict[str, Callable[[], Dataset]] = {
    "mnist": _load_mnist,
    "cifar10": _load_cifar10,
    "lfw": _load_lfw,
    "adult": _load_adult,
    "cancer": _load_cancer,
}


def _examples(inputs: NDArray[np.uint8] | NDArray[np.float32], labels: Integers | NDArray[np.uint8]) -> Examples:
    return Examples(torch.from_numpy(inputs), torch.from_numpy(labels.astype(np.int64)))


def _check_tensors(where: str, examples: Examples) -> None:
    inputs, labels = examples.inputs, examples.labels
    told: dict[str, object] = {"inputs": inputs, "labels": labels}
    for name, values in told.items():
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
