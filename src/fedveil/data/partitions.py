"""Who holds which records: the training part divided over clients, and a test set for each of them.

Either clients are the sites that a data set comes with (`site_partition`), or they are simulated (`make_partition`).
A partition is a pure function of the sites or labels, its specification and a seed. Record-level privacy depends on
how many clients hold the same record, so every partition counts its copies instead of leaving them to be
guessed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedveil.core.errors import FedveilError
from fedveil.data.dealing import (
    Integers,
    choose_independently,
    counts_of,
    deal_by_label,
    deal_in_passes,
    draw_label_counts,
    generator,
)
from fedveil.data.row_lists import RowLists, RowNumbers
from fedveil.data.site_records import SiteRecords


@dataclass(frozen=True)
class Shards:
    """Sorted by label, cut into equal shards, `per_client` of them for each client (McMahan et al. 2017)."""

    kind: ClassVar[str] = "shards"
    per_client: int = 2

    def __post_init__(self) -> None:
        if self.per_client < 1:
            raise FedveilError(f"partition 'shards': per_client must be at least 1, not {self.per_client}")


@dataclass(frozen=True)
class Random:
    """A uniformly random part for each client."""

    kind: ClassVar[str] = "random"


@dataclass(frozen=True)
class Dirichlet:
    """Each client has its own label distribution q ~ Dir(β) and draws its training and test labels from it.

    A small β gives clients of one label, a large β clients that are all alike (Zheng et al. 2021, section
    4.2).
    """

    kind: ClassVar[str] = "dirichlet"
    beta: float = 0.5

    def __post_init__(self) -> None:
        # Far below 0.001 every draw is one-hot, and the sampler runs out of floating point.
        if not (math.isfinite(self.beta) and self.beta >= 1e-3):
            raise FedveilError(f"partition 'dirichlet': beta must be a number from 0.001 up, not {self.beta}")


@dataclass(frozen=True)
class FullCopy:
    """Every client holds the whole training part, or its own random choice of it if asked for fewer."""

    kind: ClassVar[str] = "copy"


@dataclass(frozen=True)
class NaturalSites:
    """Client i is site i of the data set: the sites keep their names and the records they came with."""

    kind: ClassVar[str] = "sites"


SimulatedClients = Shards | Random | Dirichlet | FullCopy
PartitionKind = Shards | Random | Dirichlet | FullCopy | NaturalSites
PARTITIONS: dict[str, type[PartitionKind]] = {
    one.kind: one for one in (Shards, Random, Dirichlet, FullCopy, NaturalSites)
}


@dataclass(frozen=True, eq=False)
class Partition:
    """RowNumbers of the training part (`clients`) and of the validation part (`tests`), one list per client.

    The rows of a client are distinct and ascending. Two clients may hold the same record: `max_copies` is
    the number of clients that hold the most shared record and `mean_copies` the mean over all records that
    are held, both 1 for a disjoint partition. Test sets of different clients may overlap. `names` are those of the
    sites; simulated clients have none.
    """

    clients: RowLists
    tests: RowLists
    max_copies: int
    mean_copies: float
    seed: int
    names: tuple[str, ...] = ()

    def label_counts(self, labels: ArrayLike, classes: int) -> Integers:
        """How often each label occurs at each client: [clients, classes]."""
        owners = np.repeat(np.arange(len(self.clients)), self.clients.sizes)
        cells = owners * classes + np.asarray(labels)[self.clients.rows]
        return np.bincount(cells, minlength=len(self.clients) * classes).reshape(len(self.clients), classes)


def make_partition(
    labels_train: ArrayLike,
    labels_validation: ArrayLike,
    spec: SimulatedClients,
    clients: int,
    records_per_client: int,
    test_per_client: int,
    seed: int,
) -> Partition:
    """Divide the training part over clients, `records_per_client` each, and draw each client a test set.

    Records are dealt without repetition for as long as there are enough, then dealt again. The test labels
    follow the label distribution of the client: q itself for `Dirichlet`, otherwise the frequencies in its
    records.
    """
    train = _label_array(labels_train, "training")
    validation = _label_array(labels_validation, "validation")
    _check_request(spec, len(train), len(validation), clients, records_per_client, test_per_client, seed)
    classes = int(max(train.max(), validation.max(initial=0))) + 1
    dealing = generator(seed, f"partition {spec.kind}")

    match spec:
        case Shards(per_client):
            held = _deal_shards(train, clients, records_per_client, per_client, dealing)
        case Random():
            held = deal_in_passes(len(train), clients, records_per_client, dealing)
        case FullCopy():
            held = choose_independently(len(train), clients, records_per_client, dealing)
        case Dirichlet(beta):
            preferences = _dirichlet_preferences(train, classes, clients, beta, dealing)
            wanted = draw_label_counts(preferences, counts_of(train, classes), records_per_client, "training", dealing)
            held = deal_by_label(train, wanted, dealing)
    held.sort(axis=1)

    if test_per_client:
        testing = generator(seed, f"tests {spec.kind}")
        if not isinstance(spec, Dirichlet):
            preferences = _label_frequencies(train, held, classes)
        room = counts_of(validation, classes)
        wanted = draw_label_counts(preferences, room, test_per_client, "test", testing)
        tests = deal_by_label(validation, wanted, testing)
        tests.sort(axis=1)
    else:
        tests = np.empty((clients, 0), dtype=np.int32)

    copies = np.bincount(held.reshape(-1), minlength=len(train))
    return Partition(
        clients=RowLists.of_table(held),
        tests=RowLists.of_table(tests),
        max_copies=int(copies.max()),
        mean_copies=held.size / int(np.count_nonzero(copies)),
        seed=seed,
    )


def site_partition(sites: Sequence[SiteRecords], test_per_client: int, seed: int) -> Partition:
    """Each site as a client, with `test_per_client` of its own validation records as its test set."""
    if not sites:
        raise FedveilError("data.partition: the data set has no sites of its own; choose shards, random, …")
    testing = generator(seed, f"tests {NaturalSites.kind}")
    tests = []
    for site in sites:
        if test_per_client > len(site.validation):
            raise FedveilError(
                f"data.test: {test_per_client} test records for each site, but '{site.name}' has only"
                f" {len(site.validation)} validation records"
            )
        chosen = testing.permutation(np.asarray(site.validation, dtype=np.int64))[:test_per_client]
        tests.append(np.sort(chosen))
    return Partition(
        clients=RowLists.of(np.arange(site.train.start, site.train.stop) for site in sites),
        tests=RowLists.of(tests),
        max_copies=1,
        mean_copies=1.0,
        seed=seed,
        names=tuple(site.name for site in sites),
    )


def _deal_shards(
    labels: Integers, clients: int, records: int, per_client: int, dealing: np.random.Generator
) -> RowNumbers:
    size = records // per_client
    shards = len(labels) // size
    # What doesn't fill a shard is left out at random before sorting, so that no label pays for the remainder.
    kept = dealing.permutation(len(labels))[: shards * size]
    cut = kept[np.argsort(labels[kept], kind="stable")].astype(np.int32).reshape(shards, size)
    return cut[deal_in_passes(shards, clients, per_client, dealing)].reshape(clients, records)


def _dirichlet_preferences(
    labels: Integers, classes: int, clients: int, beta: float, dealing: np.random.Generator
) -> NDArray[np.float64]:
    """q of each client over the labels that occur; a label that nobody can hold is no class."""
    present = counts_of(labels, classes) > 0
    preferences = np.zeros((clients, classes))
    # q is never 0 except by rounding; the floor lets a client of one label that is used up take others.
    preferences[:, present] = np.maximum(dealing.dirichlet(np.full(present.sum(), beta), size=clients), 1e-100)
    return preferences


def _label_frequencies(labels: Integers, held: RowNumbers, classes: int) -> NDArray[np.float64]:
    cells = labels[held] + np.arange(len(held))[:, None] * classes
    counts = np.bincount(cells.reshape(-1), minlength=len(held) * classes).reshape(len(held), classes)
    return np.asarray(counts / held.shape[1], dtype=np.float64)


def _label_array(labels: ArrayLike, part: str) -> Integers:
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype != np.int64:
        raise FedveilError(f"{part} labels must be a vector of int64, not {array.dtype} {array.shape}")
    if array.min(initial=0) < 0:
        raise FedveilError(f"{part} labels must not be negative, found {array.min()}")
    return array


def _check_request(
    spec: SimulatedClients, train: int, validation: int, clients: int, records: int, tests: int, seed: int
) -> None:
    where = f"partition '{spec.kind}'"
    for name, value, least in (
        ("clients", clients, 1),
        ("records per client", records, 1),
        ("test records per client", tests, 0),
        ("seed", seed, 0),
    ):
        if value < least:
            raise FedveilError(f"{where}: {name} must be at least {least}, not {value}")
    if records > train:
        raise FedveilError(f"{where}: {records} records per client, but the training part has only {train}")
    if tests > validation:
        raise FedveilError(f"{where}: {tests} test records per client, but the validation part has only {validation}")
    if isinstance(spec, Shards) and records % spec.per_client:
        raise FedveilError(f"{where}: {records} records per client can't be cut into {spec.per_client} equal shards")
