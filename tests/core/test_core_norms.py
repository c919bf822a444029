"""Lengths of rows of any size, to a stated error."""

from __future__ import annotations

import pytest
import torch

from fedveil.core.norms import BLOCK, lengths


@pytest.mark.parametrize("size", [1, 7, BLOCK, BLOCK + 1, 3 * BLOCK, 1_200_000])
@pytest.mark.parametrize("shape", ["normal", "equal", "one large among many tiny"])
def test_the_length_is_that_of_double_precision_to_the_stated_error(size: int, shape: str) -> None:
    row = torch.randn(size, generator=torch.Generator().manual_seed(1))
    if shape == "equal":
        row = torch.full((size,), 0.1)
    elif shape != "normal":
        row = torch.full((size,), 3e-4)
        row[0] = 1.0
    rows = torch.stack([row, 2 * row]).unsqueeze(1)
    found, exact = lengths(rows).double(), rows.double().norm(dim=-1)
    assert found.shape == (2, 1)
    assert ((found / exact - 1).abs() < 1.3e-4).all()


def test_what_is_not_finite_stays_so() -> None:
    row = torch.zeros(2 * BLOCK + 5)
    row[-1] = torch.nan
    assert torch.isnan(lengths(row))
    row[-1] = torch.inf
    assert torch.isinf(lengths(row))
