"""Scales that are known before any record is read."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedveil.core.errors import FedveilError
from fedveil.data.public_scales import PublicScale, scaled_columns

AGE, AMOUNT = PublicScale(40, 15), PublicScale(0, 3, logarithm=True)


def test_a_number_is_counted_in_spreads_from_the_centre() -> None:
    features = scaled_columns(np.array([[25.0, 0.0], [55.0, math.e**6 - 1]]), (AGE, AMOUNT))
    assert features.dtype == np.float32
    assert features.tolist() == pytest.approx(np.array([[-1, 0], [1, 2]]))


@pytest.mark.parametrize(
    ("value", "feature"), [(1e9, 5), (-1e9, -5), (np.inf, 5), (-np.inf, -5), (np.nan, 0), (1e308, 5)]
)
def test_what_is_far_away_is_cut_and_what_is_missing_is_at_the_centre(value: float, feature: float) -> None:
    assert scaled_columns(np.array([[value]]), (AGE,)).tolist() == [[feature]]


def test_amounts_below_nothing_count_as_nothing() -> None:
    assert scaled_columns(np.array([[-100.0]]), (AMOUNT,)).tolist() == [[0]]


def test_a_narrower_limit_cuts_earlier() -> None:
    assert scaled_columns(np.array([[1e9]]), (PublicScale(0, 1, limit=2),)).tolist() == [[2]]


def test_scales_without_a_spread_are_refused() -> None:
    for wrong in ({"spread": 0.0}, {"spread": 1.0, "limit": 0.0}):
        with pytest.raises(FedveilError, match="must be a positive number"):
            PublicScale(0, **wrong)


def test_every_column_needs_a_scale() -> None:
    with pytest.raises(ValueError, match="1 scales for numbers of shape"):
        scaled_columns(np.zeros((2, 2)), (AGE,))
