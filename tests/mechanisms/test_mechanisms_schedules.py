"""Schedules begin and end where they say, stay between, and are never zero."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedveil.core.errors import FedveilError
from fedveil.mechanisms.schedules import (
    Constant,
    Exponential,
    Linear,
    Polynomial,
    Schedule,
    Staircase,
    check_values,
    schedule,
)

VALUES = st.floats(1e-3, 1e3)
TOTALS = st.integers(1, 500)


@pytest.mark.parametrize(
    ("given_schedule", "round", "rounds", "value"),
    [
        (Constant(4.0), 17, 100, 4.0),
        (Linear(6.0, 2.0), 0, 100, 6.0),
        (Linear(6.0, 2.0), 99, 100, 2.0),
        (Linear(6.0, 2.0), 33, 100, 6.0 - 4.0 / 3.0),
        (Linear(6.0, 2.0), 1, 3, 4.0),
        (Linear(6.0, 2.0), 0, 1, 6.0),
        (Linear(6.0, 2.0), 500, 100, 2.0),
        (Exponential(8.0, 2.0), 1, 3, 4.0),
        (Exponential(8.0, 2.0), 0, 1, 8.0),
        (Staircase(0.1, 0.5, 10), 9, 100, 0.1),
        (Staircase(0.1, 0.5, 10), 10, 100, 0.05),
        (Staircase(0.1, 0.5, 10), 39, 100, 0.0125),
        (Polynomial(3.0, 1.0), 0, 4, 3.0),
        (Polynomial(3.0, 1.0), 1, 4, 2.25),
        (Polynomial(3.0, 2.0), 3, 4, 0.1875),
        (Polynomial(3.0, 0.5), 3, 4, 1.5),
    ],
)
def test_hand_computed_values(given_schedule: Schedule, round: int, rounds: int, value: float) -> None:
    assert given_schedule.at(round, rounds) == pytest.approx(value, rel=1e-12)


@given(start=VALUES, end=VALUES, rounds=st.integers(2, 500))
def test_linear_and_exponential_meet_both_ends_and_stay_between(start: float, end: float, rounds: int) -> None:
    rounding = 1e-12 * max(start, end)
    low, high = min(start, end) - rounding, max(start, end) + rounding
    for changing in (Linear(start, end), Exponential(start, end)):
        values = [changing.at(round, rounds) for round in range(rounds)]
        assert values[0] == start
        assert values[-1] == pytest.approx(end, abs=rounding)
        assert all(low <= value <= high for value in values)
        ordered = sorted(values, reverse=start > end)
        assert values == pytest.approx(ordered, abs=rounding)


@given(start=VALUES, end=VALUES, rounds=st.integers(3, 300))
def test_linear_changes_by_equal_steps_and_exponential_by_equal_factors(start: float, end: float, rounds: int) -> None:
    linear = [Linear(start, end).at(round, rounds) for round in range(rounds)]
    steps = [b - a for a, b in itertools.pairwise(linear)]
    assert steps == pytest.approx([(end - start) / (rounds - 1)] * (rounds - 1), abs=1e-9)
    exponential = [Exponential(start, end).at(round, rounds) for round in range(rounds)]
    ratios = [b / a for a, b in itertools.pairwise(exponential)]
    assert ratios == pytest.approx([(end / start) ** (1 / (rounds - 1))] * (rounds - 1), rel=1e-9)


@given(start=VALUES, power=st.floats(0.1, 4), rounds=TOTALS)
def test_polynomial_falls_from_its_start_and_is_positive_in_every_round(
    start: float, power: float, rounds: int
) -> None:
    values = [Polynomial(start, power).at(round, rounds) for round in range(rounds)]
    assert values[0] == start
    assert all(value > 0 for value in values)
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(start * rounds**-power)


@given(start=VALUES, factor=st.floats(0.5, 1.5), every=st.integers(1, 50), rounds=TOTALS)
def test_staircase_is_flat_on_a_step_and_multiplies_between_steps(
    start: float, factor: float, every: int, rounds: int
) -> None:
    stairs = Staircase(start, factor, every)
    for round in range(rounds):
        expected = stairs.at(round - 1, rounds) * (factor if round % every == 0 else 1) if round else start
        assert stairs.at(round, rounds) == pytest.approx(expected, rel=1e-9)


@given(value=VALUES, rounds=TOTALS)
def test_constant_never_changes(value: float, rounds: int) -> None:
    assert {Constant(value).at(round, rounds) for round in range(rounds)} == {value}


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize(
    "make",
    [
        Constant,
        lambda v: Linear(v, 1.0),
        lambda v: Linear(1.0, v),
        lambda v: Exponential(v, 1.0),
        lambda v: Exponential(1.0, v),
        lambda v: Staircase(v, 0.5, 1),
        lambda v: Staircase(1.0, v, 1),
        lambda v: Staircase(1.0, 0.5, v),
        lambda v: Polynomial(v, 1.0),
        lambda v: Polynomial(1.0, v),
    ],
)
def test_every_field_must_be_positive_and_finite(make: type[Constant], wrong: float) -> None:
    with pytest.raises(FedveilError, match="must be a positive"):
        make(wrong)


def test_a_number_stands_for_a_constant_and_a_schedule_for_itself() -> None:
    assert schedule(3) == Constant(3.0)
    assert schedule(0.5) == Constant(0.5)
    linear = Linear(2.0, 1.0)
    assert schedule(linear) is linear
    with pytest.raises(FedveilError):
        schedule(0)


@pytest.mark.parametrize(
    ("extreme", "rounds"),
    [
        (Linear(1.0, 1e-17), 100),
        (Staircase(1.0, 0.1, 1), 500),
        (Staircase(1.0, 10.0, 1), 500),
        (Polynomial(1.0, 200.0), 100),
    ],
)
def test_a_schedule_that_leaves_the_safe_numbers_in_some_round_is_refused(extreme: Schedule, rounds: int) -> None:
    with pytest.raises(FedveilError, match=r"bound is .* in round"):
        check_values("bound", extreme, rounds)


def test_numbers_that_single_precision_cannot_hold_are_refused() -> None:
    for start, end in ((1e200, 1.0), (1.0, 1e-200)):
        with pytest.raises(FedveilError, match="must be a positive"):
            Exponential(start, end)
