"""What rounding may take off the clip, and that it is enough."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedveil.core.errors import FedveilError
from fedveil.mechanisms.arithmetic import DOUBLE, NORM_MARGIN, ONE_BLOCK, SHORT_BLOCK, block_size, margin

PAGE = Path(__file__).parents[2] / "docs/numbers.md"


@given(
    rows=st.integers(1, 2000),
    size=st.integers(1, 10**8),
    multiplier=st.floats(0, 20),
)
def test_more_rows_coordinates_or_noise_never_take_less(rows: int, size: int, multiplier: float) -> None:
    one = margin(rows=rows, chain=32, size=size, multiplier=multiplier)
    assert one > NORM_MARGIN
    assert one <= margin(rows=rows + 1, chain=32, size=size, multiplier=multiplier)
    assert one <= margin(rows=rows, chain=33, size=size, multiplier=multiplier)
    assert one <= margin(rows=rows, chain=32, size=size + 1, multiplier=multiplier)
    assert one <= margin(rows=rows, chain=32, size=size, multiplier=multiplier + 0.1)


def test_the_table_of_the_page_is_what_the_code_computes() -> None:
    power = {"10⁴": 10**4, "10⁶": 10**6, "10⁸": 10**8}
    lines = [line.split("|")[1:5] for line in PAGE.read_text().splitlines() if line.startswith("| 10")]
    assert len(lines) == 7
    for size, rows, multiplier, share in ([field.strip() for field in line] for line in lines):
        count = int(rows.replace(",", ""))
        taken = margin(rows=count, chain=block_size(count), size=power[size], multiplier=float(multiplier))
        assert f"{100 * taken:.2g} %" == share


@pytest.mark.parametrize(("multiplier", "size", "rows"), [(1e6, 10**4, 1), (1e3, 10**8, 1), (1.0, 10, 10**8)])
def test_a_margin_beyond_half_of_the_clip_is_refused(multiplier: float, size: int, rows: int) -> None:
    with pytest.raises(FedveilError, match="more than half of the clip"):
        margin(rows=rows, chain=block_size(rows), size=size, multiplier=multiplier)


def test_very_long_sums_pay_for_two_blocks_and_for_additions_in_double_precision() -> None:
    before, after = (margin(rows=rows, chain=SHORT_BLOCK, size=22, multiplier=37.0) for rows in (10_000, 10_001))
    assert after < before < 0.042
    assert margin(rows=5_000_000, chain=SHORT_BLOCK, size=22, multiplier=37.0) < 0.012
    with pytest.raises(FedveilError, match="more than half of the clip"):
        margin(rows=1_000_000, chain=1_000_000, size=1, multiplier=0.0)  # not added in blocks


def test_short_sums_are_made_in_one_go_and_long_ones_in_short_blocks() -> None:
    assert [block_size(rows) for rows in (1, ONE_BLOCK, ONE_BLOCK + 1, 5000)] == [
        1,
        ONE_BLOCK,
        SHORT_BLOCK,
        SHORT_BLOCK,
    ]


@pytest.mark.parametrize("rows", [2, 16, 128])
def test_sums_in_single_precision_err_by_less_than_is_taken_off(rows: int) -> None:
    """Rows with the worst rounding that a search finds stay far within the bound."""
    generator = np.random.default_rng(rows)
    worst = 0.0
    for _ in range(200):
        table = generator.standard_normal((rows, 50)) * np.exp(generator.uniform(-8, 0, (rows, 1)))
        table = (table / np.linalg.norm(table, axis=1, keepdims=True)).astype(np.float32)
        single = torch.from_numpy(table).sum(dim=0).double().numpy()
        chained = table[0].copy()
        for row in table[1:]:
            chained += row
        exact = table.astype(np.float64).sum(axis=0)
        worst = max(worst, *(float(np.linalg.norm(one - exact)) for one in (single, chained.astype(np.float64))))
    allowed = margin(rows=rows, chain=rows, size=50, multiplier=0.0) - NORM_MARGIN
    assert 2 * worst <= allowed


@given(
    values=st.lists(st.floats(-50, 50), min_size=1, max_size=30),
    moves=st.lists(st.floats(-1e-3, 1e-3), min_size=30, max_size=30),
    std=st.floats(0.01, 100),
)
def test_rounding_to_the_grid_moves_neighbours_apart_by_less_than_is_taken_off(
    values: list[float], moves: list[float], std: float
) -> None:
    one = np.array(values)
    two = one + np.array(moves[: len(values)])
    cells = [np.rint(vector * (1 / (std * 2.0**-24))) for vector in (one, two)]
    apart = np.linalg.norm(cells[0] - cells[1]) * std * 2.0**-24
    extra = margin(rows=1, chain=1, size=len(values), multiplier=std, unit=DOUBLE) - NORM_MARGIN
    assert apart <= np.linalg.norm(one - two) + extra * 1.0 + 1e-15
    assert math.isfinite(apart)
