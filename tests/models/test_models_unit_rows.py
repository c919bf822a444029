"""Rows of length 1 and the linear model on them."""

from __future__ import annotations

import pytest
import torch

from fedveil.core.errors import FedveilError
from fedveil.core.parameters import Layout
from fedveil.models.registry import build, fixed_part
from fedveil.models.unit_rows import UnitRows, hat, row_features


def test_every_row_has_length_1_with_a_constant_at_its_end() -> None:
    rows = UnitRows((4,), limit=1.0)(torch.tensor([[0.0, 0.0, 0.0, 0.0], [1.0, -1.0, 0.5, 0.0], [1e9, -3.0, 0.0, 1.0]]))
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(3))
    assert rows[0].tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]
    torch.testing.assert_close(rows[2], torch.tensor([1.0, -1.0, 0.0, 1.0, 0.25]) / 3.0625**0.5)  # cut to 1 first


def test_what_is_trained_is_one_layer_without_a_bias_that_begins_at_zero() -> None:
    model = build("linear", (2, 3), 4, seed=0)
    layout = Layout.of(model)
    assert layout.names == ("head.weight",)
    assert layout.size == 4 * 7
    assert layout.vector(model).abs().max() == 0
    parts = fixed_part(model)
    assert parts is not None
    assert parts[0].outputs == 7


def test_a_limit_that_is_no_limit_is_refused() -> None:
    with pytest.raises(FedveilError, match=r"model.options.limit"):
        build("linear", (3,), 2, {"limit": 0.0}, seed=0)


def test_more_products_than_memory_should_hold_are_refused() -> None:
    with pytest.raises(FedveilError, match=r"model.options.products: would make .* features of every record"):
        build("linear", (784,), 2, {"products": True}, seed=0)
    with pytest.raises(FedveilError, match=r"model.options.low_ends: must be true or false"):
        build("linear", (3,), 2, {"low_ends": "yes"}, seed=0)


def test_a_hat_tells_small_amounts_apart_by_factors_and_leaves_flags_alone() -> None:
    heights = hat(torch.tensor([[-1.0, -0.999, -0.99, -0.9, -0.5, 0.0, 1.0]]))[0]
    assert heights[0] == heights[5] == heights[6] == 0
    assert heights[3] == pytest.approx(1.0, abs=1e-6)
    assert bool((heights[:4].diff() > 0.1).all())  # every factor of ten is a step
    assert 0 < heights[4] < heights[3]


@pytest.mark.parametrize("low_ends", [False, True])
@pytest.mark.parametrize("products", [False, True])
def test_rows_with_more_features_still_have_length_1(low_ends: bool, products: bool) -> None:
    rows = UnitRows((3,), 1.0, low_ends=low_ends, products=products)(torch.rand(20, 3) * 4 - 2)
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(20))
    assert rows.shape[1] == row_features(3, low_ends=low_ends, products=products)


def test_products_are_those_of_the_numbers_that_make_the_row() -> None:
    plain, both = UnitRows((2,), 1.0), UnitRows((2,), 1.0, products=True)
    rows = torch.rand(5, 2) * 2 - 1
    alike = both(rows) @ both(rows).T
    inner = plain(rows) @ plain(rows).T
    torch.testing.assert_close(alike, (inner + inner.square()) / 2)
