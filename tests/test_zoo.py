"""The presets are the papers' methods."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from fedveil.core.errors import FedveilError
from fedveil.core.types import Population, Unit
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.schedules import Constant, Linear
from fedveil.parts.aggregation import Aggregation
from fedveil.parts.batches import FullBatch, PartitionBatch
from fedveil.parts.cohorts import Everyone, FixedSize, PoissonCohort
from fedveil.parts.optimisers import Sgd
from fedveil.zoo import FED_AVG, FED_CDP, FED_CDP_DECAY, FED_SGD, ZOO, named


def test_the_names_lead_to_the_methods() -> None:
    assert named("fedavg") is FED_AVG
    assert named("fed-cdp") is FED_CDP
    assert list(ZOO) == [
        "private-records",
        "private-clients",
        "fedsgd",
        "fedavg",
        "fed-sdp",
        "fed-sdp-client",
        "fed-cdp",
        "fed-cdp-decay",
        "fed-cdp-batch",
        "fed-cdp-allocated",
        "fed-cdp-calibrated",
        "geyer",
        "geyer-private",
        "ldp-sgd",
        "ldp-sgd-poly",
        "ldp-sgd-quantile",
        "ldp-sgd-median",
        "prifedsync",
        "dssgd",
    ]


def test_every_entry_says_what_it_is_in_one_line() -> None:
    for entry in ZOO.values():
        assert entry.paper
        assert entry.summary
        assert "\n" not in entry.paper + entry.summary


def test_an_unknown_name_is_refused_with_the_list() -> None:
    with pytest.raises(
        FedveilError, match=r"^method: there is no method 'fedfoo'; there are private-records, private-clients, fedsgd,"
    ):
        named("fedfoo")


def test_fedavg_is_a_hundred_steps_of_sgd_on_batches_of_five_then_the_mean() -> None:
    assert (FED_AVG.local.steps, FED_AVG.batch, FED_AVG.rounds) == (100, PartitionBatch(5), 100)
    assert (FED_AVG.local.optimiser, FED_AVG.local.rate) == (Sgd(), Constant(0.1))
    assert FED_AVG.cohort == FixedSize(100)
    assert FED_AVG.aggregate == Aggregation(optimiser=Sgd(), rate=Constant(1.0))


def test_fedsgd_is_one_gradient_of_everything_a_client_holds() -> None:
    assert (FED_SGD.local.steps, FED_SGD.local.epochs, FED_SGD.batch) == (1, None, FullBatch())
    assert FED_SGD.local_steps(500) == 1


@pytest.mark.parametrize("name", ["fedsgd", "fedavg"])
def test_the_methods_without_privacy_declare_no_noise(name: str) -> None:
    assert named(name).example is None
    assert named(name).declare(0, 500, 3, 1000) == ()


def test_fed_cdp_clips_every_example_layer_by_layer_at_4_with_noise_6_for_every_row() -> None:
    example = FED_CDP.example
    assert example is not None
    assert example.clip == Clip(Constant(4.0), by="layer")
    assert (example.sigma, example.noise, example.unit) == (6.0, "row", Unit.RECORD)
    (declared,) = FED_CDP.declare(57, 500, 3, 1000)
    assert (declared.bound, declared.steps, declared.sampling.batch, declared.sampling.uses) == (4.0, 100, 5, 1)
    assert declared.row_std == 0.0  # it is drawn on the sum
    assert declared.sum_std == pytest.approx(24.0 * math.sqrt(5))
    assert declared.sensitivity == pytest.approx(4.0 * math.sqrt(3))


def test_fed_cdp_decay_lets_the_clip_fall_from_6_to_2_and_keeps_sigma() -> None:
    example = FED_CDP_DECAY.example
    assert example is not None
    assert example.clip == Clip(Linear(6.0, 2.0), by="layer")
    assert (example.sigma, example.noise) == (6.0, "row")
    bounds = [FED_CDP_DECAY.declare(round, 500, 3, 1000)[0].bound for round in range(100)]
    assert (bounds[0], bounds[-1]) == (6.0, 2.0)
    assert bounds == sorted(bounds, reverse=True)


def test_decay_has_the_multiplier_of_fed_cdp_in_every_round() -> None:
    for round in (0, 41, 99):
        (fixed,), (falling,) = FED_CDP.declare(round, 500, 3, 1000), FED_CDP_DECAY.declare(round, 500, 3, 1000)
        assert falling.sum_std / falling.sensitivity == pytest.approx(fixed.sum_std / fixed.sensitivity)


def test_fed_cdp_differs_from_fedavg_only_in_its_mechanism_and_learning_rate() -> None:
    assert replace(FED_CDP.local, rate=FED_AVG.local.rate) == FED_AVG.local
    assert FED_CDP.local == FED_CDP_DECAY.local
    for part in ("cohort", "batch", "aggregate", "stop"):
        assert getattr(FED_CDP, part) == getattr(FED_CDP_DECAY, part) == getattr(FED_AVG, part)


@pytest.mark.parametrize("name", ZOO)
def test_every_method_runs_on_the_papers_mnist_population_and_not_on_too_few_clients(name: str) -> None:
    named(name).check(Population((500,) * 1000))
    if isinstance(named(name).cohort, PoissonCohort | Everyone):
        return
    with pytest.raises(FedveilError, match="cohort"):
        named(name).check(Population((500,) * 99))
