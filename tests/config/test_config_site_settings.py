"""A data set that comes from sites: its sites are the clients, unless the spec says otherwise."""

from __future__ import annotations

import pytest

from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.data.partitions import NaturalSites, Random
from fedveil.parts.cohorts import Everyone, FixedSize, PoissonCohort
from fedveil.zoo import ZOO


@pytest.mark.parametrize("method", ZOO)
def test_under_every_method_the_clients_of_heart_are_its_hospitals(method: str) -> None:
    spec = resolve(method, {"data.name": "heart"})
    assert (spec.data.partition, spec.data.clients, spec.data.records) == (NaturalSites(), 4, None)
    assert isinstance(spec.method.cohort, Everyone | PoissonCohort)


def test_simulated_clients_are_one_way_among_others() -> None:
    spec = resolve("fed-cdp-calibrated", {"data.name": "heart", "data.partition": "random", "data.clients": 200})
    assert (spec.data.partition, spec.data.clients, spec.data.records) == (Random(), 200, None)
    assert spec.method.cohort == FixedSize(100, most=10)


def test_a_cohort_that_is_stated_is_kept() -> None:
    spec = resolve("fedavg", {"data.name": "heart", "cohort": {"kind": "fixed", "size": 2}})
    assert spec.method.cohort == FixedSize(2)


def test_sites_do_not_hold_so_many_records_each() -> None:
    with pytest.raises(FedveilError, match=r"data\.records: each site holds the records it has"):
        resolve("fedavg", {"data.name": "heart", "data.records": 20})


def test_sites_that_are_yet_to_be_counted_are_none_and_simulated_clients_are_some() -> None:
    assert resolve("fedavg", {"data.name": "mine", "data.partition": "sites"}).data.clients == 0
    with pytest.raises(FedveilError, match=r"data\.clients: must be a positive whole number"):
        resolve("fedavg", {"data.name": "heart", "data.partition": "random", "data.clients": 0})
