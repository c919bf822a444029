"""Checks accept what they promise and refuse the rest in one line."""

from __future__ import annotations

import math
import pickle

import pytest

from fedveil.core.checks import FieldError, not_negative, one_of, positive, within
from fedveil.core.errors import FedveilError

NOT_FINITE = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("value", [1, 1e-30, 5.5, 10**9])
def test_positive_accepts_positive_numbers(value: float) -> None:
    positive("size", value)


@pytest.mark.parametrize("value", [0, -1, -0.0, *NOT_FINITE])
def test_positive_refuses_everything_else_and_names_the_field(value: float) -> None:
    with pytest.raises(FedveilError, match=r"^size must be a positive number"):
        positive("size", value)


@pytest.mark.parametrize("value", [0, 0.0, 1e-30, 7])
def test_not_negative_accepts_zero_and_up(value: float) -> None:
    not_negative("sigma", value)


@pytest.mark.parametrize("value", [-1e-30, -1, *NOT_FINITE])
def test_not_negative_refuses_negative_infinite_and_nan(value: float) -> None:
    with pytest.raises(FedveilError, match=r"^sigma must not be negative"):
        not_negative("sigma", value)


@pytest.mark.parametrize("value", [0, 0.5, math.nextafter(1.0, 0.0)])
def test_within_includes_its_lower_end(value: float) -> None:
    within("beta", value, 0, 1)


@pytest.mark.parametrize("value", [1, 1.5, -1e-9, *NOT_FINITE])
def test_within_excludes_its_upper_end_and_nan(value: float) -> None:
    with pytest.raises(FedveilError, match=r"^beta must be at least 0 and below 1"):
        within("beta", value, 0, 1)


def test_one_of_accepts_its_choices() -> None:
    one_of("noise", "row", ("row", "sum"))


@pytest.mark.parametrize("value", ["rows", "", "Row"])
def test_one_of_lists_the_choices_when_it_refuses(value: str) -> None:
    with pytest.raises(FedveilError, match=r"^noise must be 'row' or 'sum', not"):
        one_of("noise", value, ("row", "sum"))


def test_a_wrong_field_is_told_from_one_process_to_another() -> None:
    told = pickle.loads(pickle.dumps(FieldError("sigma", "must be small")))
    assert (told.field, told.problem, str(told)) == ("sigma", "must be small", "sigma must be small")
