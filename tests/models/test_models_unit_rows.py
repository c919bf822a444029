"""Rows of length 1 and the linear model on them."""

from __future__ import annotations

import pytest
import torch

from fedveil.core.errors import FedveilError
from fedveil.core.parameters import Layout
from fedveil.models.registry import build, fixed_part
from fedveil.models.unit_rows import UnitRows


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
