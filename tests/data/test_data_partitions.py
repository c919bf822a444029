"""Properties of partitions: sizes, disjointness, honesty about copies, reproducibility."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from fedveil.core.errors import FedveilError
from fedveil.data.partitions import (
    PARTITIONS,
    Dirichlet,
    FullCopy,
    NaturalSites,
    Partition,
    Random,
    Shards,
    SimulatedClients,
    make_partition,
    site_partition,
)
from fedveil.data.site_records import sites_in_order

SPECS = [
    Shards(1),
    Shards(2),
    Shards(4),
    Random(),
    Dirichlet(0.5),
    Dirichlet(0.001),
    Dirichlet(1e6),
    FullCopy(),
]


def labels_of(count: int, classes: int, seed: int = 0) -> Tensor:
    return torch.randint(0, classes, (count,), generator=torch.Generator().manual_seed(seed))


@st.composite
def requests(draw: st.DrawFn) -> tuple[Tensor, Tensor, SimulatedClients, int, int, int, int]:
    spec = draw(st.sampled_from(SPECS))
    classes = draw(st.integers(2, 7))
    train = labels_of(draw(st.integers(40, 300)), classes, draw(st.integers(0, 99)))
    # Every label often enough in validation that no client's own labels are too few.
    validation = torch.arange(classes).repeat(10)
    clients = draw(st.integers(1, 30))
    shards = spec.per_client if isinstance(spec, Shards) else 1
    records = shards * draw(st.integers(1, 40 // shards))
    return train, validation, spec, clients, records, draw(st.integers(0, 10)), draw(st.integers(0, 2**64))


@settings(deadline=None, max_examples=150)
@given(requests())
def test_every_partition_keeps_its_promises(
    request: tuple[Tensor, Tensor, SimulatedClients, int, int, int, int],
) -> None:
    train, validation, spec, clients, records, tests, seed = request
    partition = make_partition(train, validation, spec, clients, records, tests, seed)

    assert len(partition.clients) == len(partition.tests) == clients
    assert all(len(part) == records and len(np.unique(part)) == records for part in partition.clients)
    assert all(len(part) == tests and len(np.unique(part)) == tests for part in partition.tests)

    copies = np.bincount(partition.clients.rows, minlength=len(train))
    assert partition.max_copies == copies.max()
    assert partition.mean_copies == pytest.approx(float(copies[copies > 0].mean()))
    if isinstance(spec, Shards | Random) and clients * records <= len(train):
        assert partition.max_copies == 1

    counts = partition.label_counts(train, 7)
    for client, part in enumerate(partition.clients):
        assert np.array_equal(counts[client], train[part].bincount(minlength=7))
    if not isinstance(spec, Dirichlet):  # there, q may hold a label that no training record happened to get
        for part, held in zip(partition.tests, partition.clients, strict=True):
            assert set(validation[part].tolist()) <= set(train[held].tolist())


def same(first: Partition, second: Partition) -> bool:
    pairs = ((first.clients, second.clients), (first.tests, second.tests))
    return all(np.array_equal(one.rows, other.rows) and one.sizes == other.sizes for one, other in pairs)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_seed_decides(spec: SimulatedClients) -> None:
    train, validation = labels_of(2000, 10), labels_of(1000, 10, 1)
    first, again, other = (make_partition(train, validation, spec, 10, 100, 20, seed) for seed in (1, 1, 2))
    assert same(first, again)
    assert not same(first, other)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_asking_for_tests_does_not_change_who_holds_what(spec: SimulatedClients) -> None:
    train, validation = labels_of(2000, 10), labels_of(1000, 10, 1)
    with_tests = make_partition(train, validation, spec, 10, 100, 20, 5)
    without = make_partition(train, torch.empty(0, dtype=torch.int64), spec, 10, 100, 0, 5)
    assert np.array_equal(with_tests.clients.rows, without.clients.rows)


def test_two_shards_give_few_labels_and_use_everything() -> None:
    train = labels_of(50_000, 10)
    partition = make_partition(train, train, Shards(2), 100, 500, 0, 0)
    distinct = (partition.label_counts(train, 10) > 0).sum(axis=1)
    assert np.median(distinct) == 2
    assert distinct.max() <= 4
    assert np.array_equal(np.sort(partition.clients.rows), np.arange(50_000))


def test_dirichlet_beta_is_the_heterogeneity() -> None:
    train, validation = labels_of(20_000, 10), labels_of(5_000, 10, 1)

    def largest_share(beta: float) -> float:
        partition = make_partition(train, validation, Dirichlet(beta), 50, 200, 0, 0)
        return float((partition.label_counts(train, 10).max(axis=1) / 200).mean())

    assert largest_share(0.001) > 0.98
    assert 0.35 < largest_share(0.5) < 0.6  # the mean largest part of Dir(0.5) in ten dimensions is 0.40
    assert largest_share(1e6) < 0.2


def test_dirichlet_tests_follow_the_clients_own_distribution() -> None:
    train, validation = labels_of(50_000, 10), labels_of(10_000, 10, 1)
    partition = make_partition(train, validation, Dirichlet(0.5), 40, 500, 200, 3)
    shares = partition.label_counts(train, 10) / 500
    tested = np.stack([validation[part].bincount(minlength=10) for part in partition.tests]) / 200
    assert np.abs(shares - tested).max() < 0.15
    assert np.abs(shares - shares.mean(axis=0)).mean() > 3 * np.abs(shares - tested).mean()


def test_dirichlet_takes_other_labels_when_one_is_used_up() -> None:
    train = torch.tensor([0] * 5 + [1] * 5 + [3] * 20)
    partition = make_partition(train, train, Dirichlet(0.001), 8, 28, 28, 0)
    assert partition.label_counts(train, 4)[:, 2].sum() == 0


def test_full_copy_is_full_or_a_choice_of_each_client() -> None:
    train = labels_of(426, 2)
    whole = make_partition(train, train, FullCopy(), 7, 426, 10, 0)
    assert all(np.array_equal(part, np.arange(426)) for part in whole.clients)
    assert (whole.max_copies, whole.mean_copies) == (7, 7.0)
    most = make_partition(train, train, FullCopy(), 7, 400, 10, 0)
    assert not np.array_equal(most.clients[0], most.clients[1])


@pytest.mark.parametrize(
    ("spec", "changes", "message"),
    [
        (Random(), {"clients": 0}, "clients must be at least 1"),
        (Random(), {"records_per_client": 0}, "records per client must be at least 1"),
        (Random(), {"records_per_client": 101}, "101 records per client, but the training part has only 100"),
        (FullCopy(), {"records_per_client": 101}, "has only 100"),
        (Random(), {"test_per_client": -1}, "test records per client must be at least 0"),
        (Random(), {"test_per_client": 99}, "validation part has only 50"),
        (Random(), {"seed": -1}, "seed"),
        (Shards(3), {}, "10 records per client can't be cut into 3 equal shards"),
        (Shards(1), {"test_per_client": 40}, "needs 40 test records, but its labels have only"),
    ],
)
def test_bad_requests_are_refused_in_one_line(spec: SimulatedClients, changes: dict[str, int], message: str) -> None:
    request = {"clients": 2, "records_per_client": 10, "test_per_client": 0, "seed": 0} | changes
    with pytest.raises(FedveilError, match=message) as caught:
        make_partition(labels_of(100, 10).sort().values, labels_of(50, 10), spec, **request)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("labels", [torch.zeros(5), torch.zeros((5, 1), dtype=torch.int64), torch.tensor([-1])])
def test_bad_labels_are_refused(labels: Tensor) -> None:
    with pytest.raises(FedveilError, match="training labels"):
        make_partition(labels, labels_of(5, 2), Random(), 1, 1, 0, 0)


@pytest.mark.parametrize("make", [lambda: Shards(0), lambda: Dirichlet(0.0), lambda: Dirichlet(float("nan"))])
def test_bad_specifications_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(FedveilError, match="partition"):
        make()


def test_the_registry_names_every_kind() -> None:
    simulated = {"shards": Shards, "random": Random, "dirichlet": Dirichlet, "copy": FullCopy}
    assert {**simulated, "sites": NaturalSites} == PARTITIONS


SITES = sites_in_order(("north", "south", "west"), (5, 2, 9), (3, 1, 4))


def test_natural_sites_are_clients_with_their_names_and_all_their_records() -> None:
    partition = site_partition(SITES, 0, seed=1)
    assert partition.names == ("north", "south", "west")
    assert [indices.tolist() for indices in partition.clients] == [[0, 1, 2, 3, 4], [5, 6], list(range(7, 16))]
    assert (partition.max_copies, partition.mean_copies) == (1, 1.0)
    assert [len(indices) for indices in partition.tests] == [0, 0, 0]


def test_a_site_is_tested_on_its_own_validation_records() -> None:
    partition = site_partition(SITES, 1, seed=1)
    assert all(int(rows[0]) in site.validation for rows, site in zip(partition.tests, SITES, strict=True))
    assert same(partition, site_partition(SITES, 1, seed=1))
    with pytest.raises(FedveilError, match=r"data\.test: 2 test records for each site, but 'south' has only 1"):
        site_partition(SITES, 2, seed=1)


def test_a_data_set_without_sites_can_not_be_divided_by_them() -> None:
    with pytest.raises(FedveilError, match=r"data\.partition: the data set has no sites of its own"):
        site_partition((), 0, seed=1)


@pytest.mark.parametrize("spec", [Shards(2), Random(), Dirichlet(0.5), FullCopy()], ids=str)
def test_ten_thousand_clients_each_get_their_records(spec: SimulatedClients) -> None:
    train, validation = labels_of(50_000, 10), labels_of(10_000, 10, 1)
    partition = make_partition(train, validation, spec, 10_000, 500, 100, 0)
    assert {len(client) for client in partition.clients} == {500}
    assert {len(client) for client in partition.tests} == {100}
    assert len(partition.clients) == len(partition.tests) == 10_000
