"""A method is a frozen composition that declares what it does and refuses what cannot work."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedveil
from fedveil.core.errors import FedveilError
from fedveil.core.types import Declaration, Population, Sampling, Unit
from fedveil.data.dataset import Dataset
from fedveil.mechanisms.adaptive import CohortMedian, Histogram, Quantile
from fedveil.mechanisms.clip import Bound, Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import Constant, Exponential, Linear
from fedveil.method import Method
from fedveil.parts.aggregation import Aggregation
from fedveil.parts.batches import FullBatch, PartitionBatch, PoissonBatch, WithoutReplacement
from fedveil.parts.cohorts import Everyone, FixedSize, PoissonCohort
from fedveil.parts.compression import Prune
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.personal import Attention, Identity, Interpolated, Personalisation
from fedveil.parts.stopping import Stop
from fedveil.zoo import ZOO, named

NOISY = Gaussian(clip=Clip(Linear(6.0, 2.0), by="layer"), sigma=6.0, noise="row")


def test_a_method_cannot_be_changed_in_place() -> None:
    with pytest.raises(FrozenInstanceError):
        Method().stop = Stop(3)  # type: ignore[misc]


def test_methods_with_the_same_parts_are_equal() -> None:
    assert Method(example=NOISY) == Method(example=replace(NOISY))
    assert Method(example=NOISY) != Method()


def test_noise_on_examples_that_claims_to_protect_clients_is_refused() -> None:
    with pytest.raises(FedveilError, match=r"^example\.unit: .*must be 'record'$"):
        Method(example=replace(NOISY, unit=Unit.CLIENT))


def test_without_a_mechanism_nothing_is_declared() -> None:
    assert Method().declare(0, 500, 3, 1000) == ()


def test_the_declaration_follows_round_records_and_layers() -> None:
    method = Method(example=NOISY, stop=Stop(5), local=LocalTraining(epochs=2), batch=PartitionBatch(5))
    for round, bound in enumerate((6.0, 5.0, 4.0, 3.0, 2.0)):
        assert method.declare(round, 60, 4, 1000) == (
            Declaration(
                place="example",
                unit=Unit.RECORD,
                steps=24,
                bound=bound,
                sensitivity=2 * bound,
                sum_std=6 * bound * math.sqrt(5),
                row_std=0.0,
                sampling=Sampling("partition", 60, 5, 5, 2),
            ),
        )


def test_noise_on_rows_is_declared_only_where_every_row_gets_its_own() -> None:
    drawn_once = Method(example=NOISY, stop=Stop(5))
    on_rows = replace(drawn_once, example=replace(NOISY, each_row=True))
    assert (drawn_once.noises_rows, on_rows.noises_rows, Method().noises_rows) == (False, True, False)
    for round, bound in enumerate((6.0, 5.0, 4.0, 3.0, 2.0)):
        (without,), (carrying,) = (each.declare(round, 60, 4, 1000) for each in (drawn_once, on_rows))
        assert without.row_std == 0
        assert carrying == replace(without, row_std=6 * bound)


def test_rows_of_poisson_batches_get_no_noise_of_their_own() -> None:
    with pytest.raises(FedveilError, match=r"^example\.each_row: .*batches of fixed size"):
        Method(example=replace(NOISY, each_row=True), batch=PoissonBatch(5))
    for batch in (PartitionBatch(5), WithoutReplacement(5), FullBatch()):
        assert Method(example=replace(NOISY, each_row=True), batch=batch).noises_rows


@pytest.mark.parametrize("place", ["upload", "server"])
def test_only_examples_have_rows_to_noise(place: str) -> None:
    with pytest.raises(FedveilError, match=rf"^{place}\.each_row: .*use it at example$"):
        Method(**{place: on_client(noise="row", each_row=True)})  # type: ignore[arg-type]


def test_a_full_batch_declares_the_clients_own_size() -> None:
    (declared,) = Method(example=NOISY, batch=FullBatch()).declare(0, 36, 1, 1000)
    assert declared.sampling == Sampling("all", 36, 36, 36, uses=100)
    assert declared.sum_std == pytest.approx(36.0 * 6)


@given(records=st.integers(5, 2000), size=st.integers(1, 5), epochs=st.none() | st.integers(1, 4))
def test_the_declared_steps_are_the_steps_that_are_made(records: int, size: int, epochs: int | None) -> None:
    for batch in (PartitionBatch(size), WithoutReplacement(size), PoissonBatch(size)):
        method = Method(example=NOISY, batch=batch, local=LocalTraining(steps=17, epochs=epochs))
        (declared,) = method.declare(0, records, 2, 1000)
        assert declared.steps == method.local_steps(records) == (17 if epochs is None else epochs * (records // size))
        assert declared.sampling == batch.sampling(records, declared.steps)


def test_rounds_come_from_the_stop() -> None:
    assert Method(stop=Stop(7)).rounds == 7


@pytest.mark.parametrize("cohort", [FixedSize(3), PoissonCohort(0.5), Everyone()])
@pytest.mark.parametrize("batch", [PartitionBatch(5), WithoutReplacement(5), PoissonBatch(5), FullBatch()])
def test_a_population_that_is_large_enough_passes(cohort: FixedSize, batch: PartitionBatch) -> None:
    Method(cohort=cohort, batch=batch).check(Population((5, 8, 13)))


def test_a_cohort_larger_than_the_population_is_refused() -> None:
    with pytest.raises(FedveilError, match=r"^cohort\.size: 100 clients a round, but there are only 2$"):
        Method().check(Population((500, 500)))


@pytest.mark.parametrize("batch", [PartitionBatch(5), WithoutReplacement(5), PoissonBatch(5)])
def test_a_client_smaller_than_a_batch_is_refused_by_number(batch: PartitionBatch) -> None:
    with pytest.raises(
        FedveilError, match=r"^batch\.size: a batch of 5 is larger than client 1, which holds 4 records$"
    ):
        Method(cohort=Everyone(), batch=batch).check(Population((5, 4)))


def test_a_client_without_records_is_refused_for_full_batches_too() -> None:
    with pytest.raises(FedveilError):
        Method(cohort=Everyone(), batch=FullBatch()).check(Population((5, 0)))


# What parts can't do together.


def on_client(bound: Bound | float = 1.0, sigma: float = 1.0, noise: str = "sum", each_row: bool = False) -> Gaussian:
    """A mechanism for whole updates."""
    clip = Clip(bound)  # type: ignore[arg-type]
    return Gaussian(clip=clip, sigma=sigma, noise=noise, unit=Unit.CLIENT, each_row=each_row)


@pytest.mark.parametrize("personal", [Identity(), Interpolated(0.1), Attention()], ids=lambda rule: rule.kind)
def test_noise_at_the_server_with_personal_models_is_refused(personal: Personalisation) -> None:
    with pytest.raises(FedveilError, match=rf"^personal: noise at the server .*'{personal.kind}' models.*without it"):
        Method(server=on_client(), personal=personal)
    Method(upload=on_client(), personal=personal)
    Method(example=NOISY, personal=personal)


@pytest.mark.parametrize("rule", [Quantile(1.0), Histogram(1.0), CohortMedian()], ids=lambda rule: rule.kind)
def test_a_bound_that_follows_the_norms_of_examples_is_refused(rule: Bound) -> None:
    with pytest.raises(FedveilError, match=r"^example\.clip\.bound: .*for whole updates, not for examples$"):
        Method(example=replace(on_client(rule), unit=Unit.RECORD))


def test_the_cohorts_median_on_uploads_is_refused_and_at_the_server_is_not() -> None:
    with pytest.raises(FedveilError, match=r"^upload\.clip\.bound: a client does not know the other clients' norms"):
        Method(upload=on_client(CohortMedian()))
    Method(server=on_client(CohortMedian()))


def test_two_bounds_that_follow_the_norms_are_refused() -> None:
    for second in (Quantile(1.0), CohortMedian(), Histogram(1.0)):
        with pytest.raises(FedveilError, match=r"^server\.clip\.bound: only one bound of a method"):
            Method(upload=on_client(Quantile(1.0)), server=on_client(second))
    Method(upload=on_client(Quantile(1.0)), server=on_client(1.0))


@pytest.mark.parametrize("place", ["upload", "server"])
def test_noise_on_whole_updates_that_claims_to_protect_records_is_refused(place: str) -> None:
    with pytest.raises(FedveilError, match=rf"^{place}\.unit: .*must be 'client'$"):
        Method(**{place: replace(on_client(), unit=Unit.RECORD)})  # type: ignore[arg-type]


def test_noise_on_the_rows_of_an_upload_is_refused_as_it_is_one_row() -> None:
    with pytest.raises(FedveilError, match=r"^upload\.noise: .*'sum'$"):
        Method(upload=on_client(noise="row"))
    Method(server=on_client(noise="row"))


def test_noise_that_outgrows_the_counts_in_a_later_round_is_refused_at_once() -> None:
    loud = replace(on_client(Quantile(1.0, sigma=5.0)), course=Exponential(1.0, 20.0))
    with pytest.raises(FedveilError, match=r"^server\.clip\.bound\.sigma of the counts must be above 10"):
        Method(server=loud)


def test_the_cohorts_median_under_strict_is_refused_before_anything_runs(pictures: Dataset, tmp_path: Path) -> None:
    settings = {"privacy.strict": True, "data.clients": 10, "data.records": 12, "data.partition": "random"}
    settings |= {"cohort": {"kind": "fixed", "size": 3}, "batch": {"kind": "partition", "size": 5}}
    with pytest.raises(FedveilError, match=r"^privacy\.strict: .*median of the cohort's norms"):
        fedveil.run("geyer", settings, out=tmp_path / "run", dataset=pictures, workers=1)
    assert not (tmp_path / "run").exists()


# What is declared for whole updates.


def test_the_declaration_at_the_server_counts_the_declared_cohort() -> None:
    method = Method(server=on_client(2.0, sigma=3.0, noise="row"), cohort=PoissonCohort(0.09), stop=Stop(2))
    (declared,) = method.declare(0, 500, 4, 1000)
    assert (declared.place, declared.unit, declared.steps, declared.sensitivity) == ("server", Unit.CLIENT, 1, 2.0)
    assert declared.sum_std == pytest.approx(2.0 * 3.0 * math.sqrt(90))
    (growing,) = replace(method, cohort=FixedSize(10, growth=Linear(1.0, 4.0))).declare(1, 500, 4, 1000)
    assert growing.sum_std == pytest.approx(2.0 * 3.0 * math.sqrt(40))


def test_uploads_add_up_unless_somebody_sees_or_changes_single_ones() -> None:
    plain = Method(upload=on_client())
    assert plain.declare(0, 5, 1, 9)[0].adds_up
    for changed in (
        {"compress": Prune(0.1)},
        {"server": on_client()},
        {"personal": Attention()},
        {"personal": Interpolated()},
    ):
        assert not replace(plain, **changed).declare(0, 5, 1, 9)[0].adds_up


def test_uploads_of_clients_that_only_keep_their_models_add_up() -> None:
    assert Method(upload=on_client(), personal=Identity()).declare(0, 5, 1, 9)[0].adds_up


def test_mechanisms_are_declared_in_the_order_in_which_they_act_with_the_bound_of_the_round() -> None:
    method = Method(example=NOISY, upload=on_client(2.0), server=on_client(Quantile(1.0)))
    declared = method.declare(0, 500, 2, 100, bound=7.0)
    assert [one.place for one in declared] == ["example", "upload", "server"]
    assert [one.bound for one in declared] == [6.0, 2.0, 7.0]


@pytest.mark.parametrize("name", ZOO)
def test_a_steady_method_declares_the_same_in_every_round_and_no_other_does(name: str) -> None:
    method = named(name)
    declared = {(method.declare(round, 500, 3, 1000), method.cohort.at(round, method.rounds)) for round in range(100)}
    changing = {"fed-cdp-decay", "ldp-sgd-poly", "ldp-sgd-median"}
    assert method.steady == (name not in changing)
    assert (len(declared) == 1) == method.steady


def test_a_growing_cohort_is_not_steady() -> None:
    assert not Method(cohort=FixedSize(10, growth=Linear(1.0, 3.0))).steady


@pytest.mark.parametrize("place", ["upload", "server"])
def test_weights_by_records_beside_noise_that_hides_a_client_are_refused(place: str) -> None:
    noise: dict[str, Any] = {place: Gaussian(clip=Clip(Constant(1.0)), sigma=1.0, unit=Unit.CLIENT)}
    weighted = Aggregation(weights="records")
    with pytest.raises(FedveilError, match=r"^aggregate.weights: "):
        Method(aggregate=weighted, **noise)
    Method(aggregate=weighted, example=Gaussian(clip=Clip(Constant(1.0)), sigma=1.0))


def test_sums_in_which_clients_count_differently_are_not_plain_sums() -> None:
    """Else a cohort's noises would be counted together as if all had the same size."""
    method = replace(named("fed-cdp-calibrated"), cohort=FixedSize(3), aggregate=Aggregation())
    assert method.examples_add_up((100, 100))
    weighted = replace(method, aggregate=Aggregation(weights="records"))
    assert not weighted.examples_add_up((100, 100))
    assert not weighted.counts_on_full_cohorts
