"""How long a client trains."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedveil.core.errors import FedveilError
from fedveil.mechanisms.schedules import Constant, Linear
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.optimisers import Sgd


def test_the_defaults_are_a_hundred_steps_of_sgd_at_a_tenth() -> None:
    local = LocalTraining()
    assert (local.steps, local.epochs, local.optimiser, local.rate, local.decay) == (
        100,
        None,
        Sgd(),
        Constant(0.1),
        0,
    )


def test_steps_count_whatever_the_client_holds() -> None:
    assert LocalTraining(steps=7).steps_for(1000, 5) == LocalTraining(steps=7).steps_for(3, 5) == 7


@pytest.mark.parametrize(
    ("epochs", "records", "batch", "steps"), [(1, 500, 5, 100), (4, 600, 10, 240), (2, 11, 4, 4), (3, 3, 5, 3)]
)
def test_epochs_are_passes_of_whole_batches(epochs: int, records: int, batch: int, steps: int) -> None:
    assert LocalTraining(epochs=epochs, steps=9).steps_for(records, batch) == steps


@given(epochs=st.integers(1, 10), records=st.integers(1, 500), batch=st.integers(1, 500))
def test_epochs_make_at_least_one_step_each(epochs: int, records: int, batch: int) -> None:
    assert LocalTraining(epochs=epochs).steps_for(records, batch) >= epochs


def test_the_rate_may_be_a_number_or_a_schedule() -> None:
    assert LocalTraining(rate=0.1).rate == Constant(0.1)  # type: ignore[arg-type]
    assert LocalTraining(rate=Linear(0.1, 0.01)).rate == Linear(0.1, 0.01)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": -1}, "steps"),
        ({"epochs": 0}, "epochs"),
        ({"decay": -0.1}, "decay"),
        ({"decay": math.nan}, "decay"),
        ({"decay": 1e300}, "decay"),
        ({"rate": 0.0}, "value"),
        ({"rate": math.inf}, "value"),
    ],
)
def test_fields_out_of_range_are_refused_by_name(fields: dict[str, float], name: str) -> None:
    with pytest.raises(FedveilError, match=rf"^{name} must"):
        LocalTraining(**fields)  # type: ignore[arg-type]
