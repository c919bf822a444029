"""The noise is Gaussian, and a row of it depends on nothing but its address and size."""

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
from fedveil.mechanisms import noise
from fedveil.mechanisms.noise import NoiseSource

SIZES = [1, 2, 3, 63, 64, 65, 127, 128, 129, 1000, 1023]


def source(seed: int = 1) -> NoiseSource:
    return NoiseSource(Streams.from_seed(seed))


def clients(count: int) -> list[Address]:
    return [Address(2, client, 5) for client in range(count)]


def draw(addresses: list[Address], size: int, seed: int = 1, purpose: Purpose = Purpose.EXAMPLE_NOISE) -> Tensor:
    return source(seed).standard_normal(purpose, addresses, size).clone()


@pytest.fixture(scope="module")
def sample() -> np.ndarray:
    return draw(clients(8), 125_000).numpy().astype(np.float64)


def test_the_first_four_moments_are_those_of_a_standard_normal(sample: np.ndarray) -> None:
    values, count = sample.ravel(), sample.size
    assert abs(values.mean()) < 4 / math.sqrt(count)
    assert abs(values.var() - 1) < 4 * math.sqrt(2 / count)
    assert abs((values**3).mean()) < 4 * math.sqrt(15 / count)
    assert abs((values**4).mean() - 3) < 4 * math.sqrt(96 / count)


def test_every_row_passes_kolmogorov_smirnov_against_the_standard_normal(sample: np.ndarray) -> None:
    assert min(stats.kstest(row, "norm").pvalue for row in sample) > 1e-3


def test_both_halves_of_box_muller_pass_kolmogorov_smirnov(sample: np.ndarray) -> None:
    half = sample.shape[1] // 2
    assert stats.kstest(sample[:, : half - 100].ravel(), "norm").pvalue > 1e-3
    assert stats.kstest(sample[:, half + 100 :].ravel(), "norm").pvalue > 1e-3


@pytest.mark.parametrize("threshold", [2.0, 3.0, 4.0])
def test_both_tails_have_the_weight_of_a_normal(sample: np.ndarray, threshold: float) -> None:
    expected = sample.size * stats.norm.sf(threshold)
    for tail in (sample > threshold, sample < -threshold):
        assert abs(tail.sum() - expected) < 5 * math.sqrt(expected)


def test_no_value_is_infinite_or_beyond_the_stated_reach(sample: np.ndarray) -> None:
    assert np.isfinite(sample).all()
    assert np.abs(sample).max() < 6.7


def stream_of(words: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stream is these 32-bit words again and again."""

    def repeated(
        self: Streams, purpose: Purpose, address: Address, zeros: bytes, out: memoryview, block: int = 0
    ) -> None:
        stream = np.resize(words.astype(np.int32), 4 * block + len(zeros) // 4)
        out[: len(zeros)] = stream[4 * block :].tobytes()

    monkeypatch.setattr(Streams, "fill", repeated)


@pytest.mark.parametrize("word", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_extreme_bits_give_finite_noise(word: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stream_of(np.array([word]), monkeypatch)
    values = draw(clients(1), 100)
    assert torch.isfinite(values).all()
    assert values.abs().max() < 11.6


def test_the_smallest_words_reach_beyond_nine_standard_deviations(monkeypatch: pytest.MonkeyPatch) -> None:
    stream_of(np.array([0]), monkeypatch)
    values = draw(clients(2), 64)
    assert values.max() == pytest.approx(math.sqrt(2 * math.log(2.0**96)), rel=1e-6)
    assert (values > 9).any(dim=1).all()


@pytest.mark.parametrize("word", [0, 5, -1, -6, 1023, -1024, 1024, -1025, 123_456])
def test_a_far_radius_takes_further_bits_of_its_own_coordinate(word: int, monkeypatch: pytest.MonkeyPatch) -> None:
    half = 64  # radius words of a row of 128, then as many angle words, then the extensions
    words = np.random.default_rng(3).integers(1, 2**31, size=4 * half, dtype=np.int64)
    words[7], words[half + 7] = word, 0  # angle 0: the whole radius is in the first of the pair
    words[2 * half + 14 : 2 * half + 16] = (0, 2**30)  # a quarter, little-endian 64 bits
    stream_of(words, monkeypatch)
    whole = word if word >= 0 else -word - 1
    expected = math.sqrt(-2 * math.log((whole + (0.25 if whole < 1024 else 0.5)) * 2.0**-31))
    assert draw(clients(1), 2 * half)[0, 7].item() == pytest.approx(expected, rel=1e-6)


def test_the_tail_beyond_the_radius_words_has_the_weight_of_a_normal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the smallest of all radius words, the radius is that of a Rayleigh variable above sqrt(2·log 2³¹)."""
    half = 2048
    words = np.random.default_rng(0).integers(-(2**31), 2**31, size=4 * half)
    words[:half] = 0
    stream_of(words, monkeypatch)
    rows = draw(clients(1), 2 * half).numpy().astype(np.float64)[0]
    radii = np.hypot(rows[:half], rows[half:])
    assert stats.kstest(np.exp(-(radii**2) / 2) * 2.0**31, "uniform").pvalue > 1e-3


def test_extended_rows_are_bit_identical_in_any_company() -> None:
    """Real streams; among this many words some are extended."""
    addresses = [Address(1, client) for client in range(60)]
    rows = draw(addresses, 200_000)
    radii = rows[:, :99_968].square() + rows[:, 100_032:].square()
    row = int(radii.argmax()) // radii.shape[1]
    assert radii.max() > 2 * math.log(2.0**21)  # extended
    assert torch.equal(draw([addresses[row]], 200_000)[0], rows[row])


@pytest.mark.parametrize("size", SIZES)
def test_a_row_is_bit_identical_in_any_company_and_order(size: int) -> None:
    addresses = clients(9)
    alone = {address: draw([address], size)[0] for address in addresses}
    together = source()
    for company in (addresses, addresses[::-1], addresses[3:5], addresses[:1], random.Random(1).sample(addresses, 7)):
        rows = together.standard_normal(Purpose.EXAMPLE_NOISE, company, size)
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
    kept.standard_normal(Purpose.ROW_NOISE, clients(3), other)
    rows = kept.standard_normal(Purpose.EXAMPLE_NOISE, [Address(0, client) for client in picked], size)
    for client, row in zip(picked, rows, strict=True):
        assert torch.equal(row, draw([Address(0, client)], size)[0])


def test_rows_do_not_depend_on_the_number_of_threads() -> None:
    one = draw(clients(50), 4001)
    torch.set_num_threads(3)
    assert torch.equal(draw(clients(50), 4001), one)


def test_rows_of_different_addresses_are_uncorrelated() -> None:
    addresses = [*clients(6), Address(3, 0, 5), Address(2, 0, 6), Address(0, 2, 5), Address(5, 0, 2)]
    rows = draw(addresses, 20_000).numpy()
    off_diagonal = np.corrcoef(rows)[~np.eye(len(addresses), dtype=bool)]
    assert np.abs(off_diagonal).max() < 5 / math.sqrt(20_000)


def test_coordinates_of_a_row_are_uncorrelated_at_small_lags_and_between_the_halves(sample: np.ndarray) -> None:
    size = sample.shape[1]
    for lag in (1, 2, 64, size // 2, -(-size // 128) * 64):
        together = (sample[:, :-lag] * sample[:, lag:]).ravel()
        squares = ((sample[:, :-lag] ** 2 - 1) * (sample[:, lag:] ** 2 - 1)).ravel()
        assert abs(together.mean()) < 5 / math.sqrt(together.size)
        assert abs(squares.mean()) < 5 * 2 / math.sqrt(squares.size)


def test_other_purposes_and_seeds_give_other_noise() -> None:
    base = draw(clients(1), 1000)
    for other in (draw(clients(1), 1000, purpose=Purpose.ROW_NOISE), draw(clients(1), 1000, seed=2)):
        assert abs(torch.corrcoef(torch.cat([base, other]))[0, 1]) < 0.2
        assert not torch.isclose(base, other).sum() > 10


def test_no_addresses_give_no_rows() -> None:
    assert draw([], 10).shape == (0, 10)


def test_the_noise_is_single_precision_and_needs_no_global_generator() -> None:
    state = torch.get_rng_state()
    assert draw(clients(2), 10).dtype == torch.float32
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("size", [128, 129, 1000, 5000])
@pytest.mark.parametrize("piece", [64, 192])
def test_values_do_not_depend_on_how_many_are_drawn_at_a_time(
    size: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = draw(clients(3), size)
    monkeypatch.setattr(noise, "_PIECE", piece)
    assert torch.equal(draw(clients(3), size), whole)


def test_a_far_radius_is_extended_alike_in_every_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_FAR", 2**29)  # a quarter of all words
    whole = draw(clients(2), 1000)
    monkeypatch.setattr(noise, "_PIECE", 64)
    assert torch.equal(draw(clients(2), 1000), whole)
