"""Noise on a grid: exact integers, Gaussian, and a row of it depends on nothing but its address."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from fedveil.core.streams import Address, Purpose, Streams
from fedveil.mechanisms.noise import STD_CELLS, NoiseSource, grid_width

SIZES = [1, 2, 3, 63, 64, 65, 127, 128, 129, 1000, 1023]


def source(seed: int = 1) -> NoiseSource:
    return NoiseSource(Streams.from_seed(seed))


def clients(count: int) -> list[Address]:
    return [Address(2, client, 5) for client in range(count)]


def draw(addresses: list[Address], size: int, seed: int = 1, purpose: Purpose = Purpose.EXAMPLE_NOISE) -> Tensor:
    return source(seed).integers(purpose, addresses, size)


@pytest.fixture(scope="module")
def sample() -> np.ndarray:
    return draw(clients(8), 125_000).numpy() / STD_CELLS


def test_the_first_four_moments_are_those_of_a_standard_normal(sample: np.ndarray) -> None:
    values, count = sample.ravel(), sample.size
    assert abs(values.mean()) < 4 / math.sqrt(count)
    assert abs(values.var() - 1) < 4 * math.sqrt(2 / count)
    assert abs((values**3).mean()) < 4 * math.sqrt(15 / count)
    assert abs((values**4).mean() - 3) < 4 * math.sqrt(96 / count)


def test_every_row_passes_kolmogorov_smirnov_against_the_standard_normal(sample: np.ndarray) -> None:
    assert min(stats.kstest(row, "norm").pvalue for row in sample) > 1e-3


@pytest.mark.parametrize("threshold", [2.0, 3.0, 4.0])
def test_both_tails_have_the_weight_of_a_normal(sample: np.ndarray, threshold: float) -> None:
    expected = sample.size * stats.norm.sf(threshold)
    for tail in (sample > threshold, sample < -threshold):
        assert abs(tail.sum() - expected) < 5 * math.sqrt(expected)


@pytest.mark.parametrize("size", SIZES)
def test_a_row_is_bit_identical_in_any_company_and_order(size: int) -> None:
    addresses = clients(9)
    alone = {address: draw([address], size)[0] for address in addresses}
    together = source()
    for company in (addresses, addresses[::-1], addresses[3:5], addresses[:1], random.Random(1).sample(addresses, 7)):
        rows = together.integers(Purpose.EXAMPLE_NOISE, company, size)
        assert rows.shape == (len(company), size)
        for address, row in zip(company, rows, strict=True):
            assert torch.equal(row, alone[address])


@settings(max_examples=25)
@given(
    picked=st.lists(st.integers(0, 30), min_size=1, max_size=12),
    size=st.integers(1, 300),
    other=st.integers(1, 300),
)
def test_a_row_does_not_remember_earlier_draws(picked: list[int], size: int, other: int) -> None:
    kept = source()
    kept.integers(Purpose.ROW_NOISE, clients(3), other)
    rows = kept.integers(Purpose.EXAMPLE_NOISE, [Address(0, client) for client in picked], size)
    for client, row in zip(picked, rows, strict=True):
        assert torch.equal(row, draw([Address(0, client)], size)[0])


def test_rows_of_different_addresses_are_uncorrelated() -> None:
    addresses = [*clients(6), Address(3, 0, 5), Address(2, 0, 6), Address(0, 2, 5), Address(5, 0, 2)]
    rows = draw(addresses, 20_000).numpy()
    off_diagonal = np.corrcoef(rows)[~np.eye(len(addresses), dtype=bool)]
    assert np.abs(off_diagonal).max() < 5 / math.sqrt(20_000)


def test_coordinates_of_a_row_are_uncorrelated(sample: np.ndarray) -> None:
    for lag in (1, 2, 16, 32, 64, 8192, sample.shape[1] // 2):
        together = (sample[:, :-lag] * sample[:, lag:]).ravel()
        squares = ((sample[:, :-lag] ** 2 - 1) * (sample[:, lag:] ** 2 - 1)).ravel()
        assert abs(together.mean()) < 5 / math.sqrt(together.size)
        assert abs(squares.mean()) < 5 * 2 / math.sqrt(squares.size)


def test_other_purposes_and_seeds_give_other_noise() -> None:
    base = draw(clients(1), 1000)
    for other in (draw(clients(1), 1000, purpose=Purpose.ROW_NOISE), draw(clients(1), 1000, seed=2)):
        assert abs(torch.corrcoef(torch.cat([base, other]).double())[0, 1]) < 0.2
        assert not (base == other).any()


def test_no_addresses_give_no_rows() -> None:
    assert draw([], 10).shape == (0, 10)


def test_drawing_needs_no_global_generator() -> None:
    state = torch.get_rng_state()
    draw(clients(2), 10)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(
    std=st.floats(1e-3, 1e6),
    sums=st.lists(st.floats(-100, 100), min_size=1, max_size=40),
)
def test_what_is_released_is_the_rounded_sum_plus_the_integers_times_the_grid(
    dtype: torch.dtype, std: float, sums: list[float]
) -> None:
    before = torch.tensor([sums], dtype=dtype)
    after = before.clone()
    source().add(Purpose.SERVER_NOISE, [Address(4)], after, std)
    grid = grid_width(std)
    noise = draw([Address(4)], len(sums), purpose=Purpose.SERVER_NOISE)
    expected = (torch.round(before.double() * (1 / grid)) + noise) * grid
    assert torch.equal(after, expected.to(dtype))


def test_rows_that_lie_apart_in_memory_get_the_same_noise() -> None:
    wide = torch.zeros(3, 100)
    source().add(Purpose.EXAMPLE_NOISE, clients(3), wide[:, :60], 2.0)
    packed = torch.zeros(3, 60)
    source().add(Purpose.EXAMPLE_NOISE, clients(3), packed, 2.0)
    assert torch.equal(wide[:, :60], packed)
    assert not wide[:, 60:].any()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e38])
def test_no_value_gets_through_without_noise_or_as_something_that_is_not_a_number(value: float) -> None:
    released = torch.full((2, 50), value)
    source().add(Purpose.EXAMPLE_NOISE, clients(2), released, 1.0)
    assert torch.isfinite(released).all()
    assert released.abs().max() <= 2.0**27
