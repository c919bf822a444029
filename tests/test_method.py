"""A method is a frozen composition that declares what it does and refuses what cannot work."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedveil.core.errors import FedveilError
from fedveil.core.types import Declaration, Population, Sampling, Unit
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import Linear
from fedveil.method import Method
from fedveil.parts.batches import FullBatch, PartitionBatch, PoissonBatch, WithoutReplacement
from fedveil.parts.cohorts import Everyone, FixedSize, PoissonCohort
from fedveil.parts.local import LocalTraining
from fedveil.parts.stopping import Stop

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
                row_std=6 * bound,
                sampling=Sampling("partition", 60, 5, 5, 2),
            ),
        )


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
