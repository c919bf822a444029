"""The declaration of a data set that has a name. Each has a module of its own in `fedveil.data.sets`.

Nothing here needs PyTorch: declarations are read by every command, and records only by some.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedveil.core.errors import FedveilError
from fedveil.core.openness import Openness
from fedveil.data.dealing import Integers
from fedveil.data.download_progress import DownloadProgress
from fedveil.data.schema import Schema
from fedveil.data.site_records import SiteRecords, sites_in_order
from fedveil.data.sources import SourceFile, read_source

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Origin:
    """A place that has the files: its name for messages, and how to take the missing files from it."""

    name: str
    take: Callable[[NamedSet, DownloadProgress], None]


@dataclass(frozen=True, eq=False)
class ExampleArrays:
    """Inputs [N, …], bytes for pictures, and labels [N]."""

    inputs: Bytes | NDArray[np.float32]
    labels: Integers | Bytes

    def pick(self, rows: slice | Integers) -> ExampleArrays:
        return ExampleArrays(self.inputs[rows], self.labels[rows])


@dataclass(frozen=True, eq=False)
class SplitLabels:
    """The labels of `SplitArrays`, without the inputs. `tokens` says whether those are whole numbers."""

    train: Integers | Bytes
    validation: Integers | Bytes
    test: Integers | Bytes | None = None
    sites: tuple[SiteRecords, ...] = ()
    tokens: bool = False


@dataclass(frozen=True, eq=False)
class SplitArrays:
    """The records as they were read: for the clients, for measuring, and the official test set if there is one.

    `sites` says which records are whose, in a set that comes from named sites.
    """

    train: ExampleArrays
    validation: ExampleArrays
    test: ExampleArrays | None = None
    sites: tuple[SiteRecords, ...] = ()

    @property
    def labels(self) -> SplitLabels:
        return SplitLabels(
            train=self.train.labels,
            validation=self.validation.labels,
            test=None if self.test is None else self.test.labels,
            sites=self.sites,
            tokens=self.train.inputs.dtype == np.int64,
        )


def join_sites(sites: Mapping[str, tuple[ExampleArrays, ExampleArrays]]) -> SplitArrays:
    """One set of the training and the validation records of each named site, site after site."""
    train, validation = zip(*sites.values(), strict=True)
    lengths = ([len(part.labels) for part in parts] for parts in (train, validation))
    return SplitArrays(_joined(train), _joined(validation), sites=sites_in_order(tuple(sites), *lengths))


def _joined(parts: Sequence[ExampleArrays]) -> ExampleArrays:
    return ExampleArrays(
        np.concatenate([part.inputs for part in parts]), np.concatenate([part.labels for part in parts])
    )


@dataclass(frozen=True, kw_only=True)
class RoughCosts:
    """Times on two cores, measured once, for rough estimates only."""

    gradient_microseconds: float  # for one record, in the network of the task
    evaluation_seconds: float
    attack_seconds: float | None = None  # 100 iterations on one record whose gradient is clean; None: never measured


def no_more_files() -> Sequence[SourceFile]:
    """For sets whose files are all known beforehand."""
    return ()


@dataclass(frozen=True, kw_only=True, eq=False)
class NamedSet:
    """All that is known of a data set before it is read.

    `files` are known by their checksums. Where one of them is a list of further files with checksums, `more_files`
    reads it; it is only asked when all of `files` are here. `origins` are tried in turn. A set without files says in
    `carried_by` which package holds its records. `task` is the papers' setting (Fed-CDP, Table I), with the network
    and learning rate we train it with, in the shape of a spec file. `features` and `validation_records` are declared as
    in `Dataset`. `encoding` tells apart how features are made of the files: other constants give other text. `schema`
    makes the same features of a table's rows, for whoever uses a trained model. `load_labels` reads the labels alone,
    where that is much less work than `load`.
    """

    name: str
    description: str
    class_names: tuple[str, ...]
    input_shape: tuple[int, ...]
    files: tuple[SourceFile, ...]
    origins: tuple[Origin, ...]
    load: Callable[[], SplitArrays]
    task: Mapping[str, Any]
    costs: RoughCosts
    features: Openness
    validation_records: Openness
    encoding: str = ""
    more_files: Callable[[], Sequence[SourceFile]] = no_more_files
    carried_by: str = ""
    schema: Schema | None = None
    load_labels: Callable[[], SplitLabels] | None = None

    def labels(self) -> SplitLabels:
        """All that dealing the records over clients needs."""
        return self.load_labels() if self.load_labels else self.load().labels

    @property
    def tabular(self) -> bool:
        """Whether a record is a row of numbers, not a picture."""
        return len(self.input_shape) == 1

    def missing_files(self) -> list[SourceFile]:
        """The files of which there is no sound copy."""
        return self._unreadable(self.files) or self._unreadable(self.more_files())

    def _unreadable(self, files: Sequence[SourceFile]) -> list[SourceFile]:
        return [source for source in files if not self._readable(source)]

    def _readable(self, source: SourceFile) -> bool:
        try:
            read_source(self.name, source)
        except FedveilError:
            return False
        return True
