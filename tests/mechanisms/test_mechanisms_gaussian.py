"""What the mechanism declares is what it does."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from fedveil.core.checks import FieldError
from fedveil.core.errors import FedveilError
from fedveil.core.streams import Address, Purpose, Streams
from fedveil.core.types import Declaration, Sampling, Unit
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian, GaussianRound
from fedveil.mechanisms.noise import STD_CELLS, NoiseSource
from fedveil.mechanisms.schedules import Linear

SAMPLING = Sampling("partition", records=500, batch=5, cap=5, uses=1)
CLIENTS = [Address(0, client, 0) for client in range(10)]


def source(seed: int = 3) -> NoiseSource:
    return NoiseSource(Streams.from_seed(seed))


def at_bound(mechanism: Gaussian, bound: float) -> GaussianRound:
    return replace(mechanism.at(0, 1), bound=bound)


def noised_sums(mechanism: Gaussian, bound: float, batch: int, size: int = 20_000) -> Tensor:
    sums = torch.zeros(len(CLIENTS), size)
    at_bound(mechanism, bound).add_to_sums(sums, rows=batch, source=source(), addresses=CLIENTS)
    return sums


def noised_rows(mechanism: Gaussian, bound: float, batch: int, size: int = 4_000) -> Tensor:
    rows = torch.zeros(len(CLIENTS), batch, size)
    at_bound(mechanism, bound).add_to_rows(rows, source=source(), addresses=CLIENTS)
    return rows


def assert_normal(values: Tensor, std: float) -> None:
    """Standard deviation within five standard errors, and the shape of a Gaussian of exactly that size."""
    flat = values.double().flatten().numpy()
    assert abs(flat.std() / std - 1) < 5 / math.sqrt(2 * flat.size)
    assert abs(flat.mean() / std) < 5 / math.sqrt(flat.size)
    assert stats.kstest(flat / std, "norm").pvalue > 1e-3


def declared(mechanism: Gaussian, bound: float, batch: int, layers: int = 1, steps: int = 1) -> Declaration:
    return at_bound(mechanism, bound).declare(
        place="example", layers=layers, steps=steps, sampling=replace(SAMPLING, batch=batch, cap=batch)
    )


@pytest.mark.parametrize("by", ["flat", "layer"])
@pytest.mark.parametrize(("sigma", "bound", "batch"), [(6.0, 4.0, 5), (0.5, 0.1, 16), (1.0, 2.0, 1)])
def test_sum_noise_has_standard_deviation_sigma_times_c(sigma: float, bound: float, batch: int, by: str) -> None:
    mechanism = Gaussian(clip=Clip(bound, by=by), sigma=sigma, noise="sum")
    assert declared(mechanism, bound, batch).sum_std == pytest.approx(sigma * bound)
    assert_normal(noised_sums(mechanism, bound, batch), sigma * bound)


@pytest.mark.parametrize("by", ["flat", "layer"])
@pytest.mark.parametrize(("sigma", "bound", "batch"), [(6.0, 4.0, 5), (0.5, 0.1, 16), (1.0, 2.0, 1)])
def test_row_noise_drawn_on_the_sum_has_standard_deviation_sigma_times_c_times_root_b(
    sigma: float, bound: float, batch: int, by: str
) -> None:
    mechanism = Gaussian(clip=Clip(bound, by=by), sigma=sigma, noise="row")
    assert declared(mechanism, bound, batch).sum_std == pytest.approx(sigma * bound * math.sqrt(batch))
    assert_normal(noised_sums(mechanism, bound, batch), sigma * bound * math.sqrt(batch))


def test_noise_on_every_row_adds_up_to_the_noise_declared_for_the_sum() -> None:
    mechanism = Gaussian(clip=Clip(4.0), sigma=6.0, noise="row", each_row=True)
    rows = noised_rows(mechanism, 4.0, batch=5)
    assert declared(mechanism, 4.0, 5).row_std == 24.0
    assert_normal(rows, 24.0)
    assert_normal(rows.sum(dim=1), declared(mechanism, 4.0, 5).sum_std)


def test_rows_of_a_batch_have_independent_noise() -> None:
    mechanism = Gaussian(clip=Clip(1.0), sigma=1.0, noise="row", each_row=True)
    rows = noised_rows(mechanism, 1.0, batch=6, size=10_000)[0]
    off_diagonal = torch.corrcoef(rows)[~torch.eye(6, dtype=torch.bool)]
    assert off_diagonal.abs().max() < 5 / math.sqrt(10_000)


def test_clients_have_independent_noise() -> None:
    sums = noised_sums(Gaussian(clip=Clip(1.0), sigma=1.0), 1.0, batch=5)
    off_diagonal = torch.corrcoef(sums)[~torch.eye(len(CLIENTS), dtype=torch.bool)]
    assert off_diagonal.abs().max() < 5 / math.sqrt(sums.shape[1])


def test_noise_is_added_to_what_was_there() -> None:
    mechanism = Gaussian(clip=Clip(1.0), sigma=1.0)
    there = torch.full((len(CLIENTS), 50), 7.0)
    mechanism.at(0, 1).add_to_sums(there, rows=5, source=source(), addresses=CLIENTS)
    assert torch.allclose(there - 7.0, noised_sums(mechanism, 1.0, 5, size=50), atol=1e-5)


@pytest.mark.parametrize("noise", ["row", "sum"])
def test_sigma_zero_adds_nothing_and_declares_no_noise(noise: str) -> None:
    mechanism = Gaussian(clip=Clip(4.0), sigma=0.0, noise=noise)
    assert not noised_sums(mechanism, 4.0, 5, size=100).any()
    assert not noised_rows(mechanism, 4.0, 5, size=100).any()
    declaration = declared(mechanism, 4.0, 5)
    assert (declaration.sum_std, declaration.row_std, declaration.sensitivity) == (0.0, 0.0, 4.0)


@pytest.mark.parametrize("noise", ["row", "sum"])
def test_noise_drawn_on_the_sum_protects_no_single_row(noise: str) -> None:
    mechanism = Gaussian(clip=Clip(4.0), sigma=6.0, noise=noise)
    assert declared(mechanism, 4.0, 5).row_std == 0.0
    assert not noised_rows(mechanism, 4.0, 5, size=100).any()


def test_noise_on_every_row_is_not_for_noise_that_is_that_of_one_sum() -> None:
    with pytest.raises(FieldError, match=r"^each_row .*needs noise = 'row'$"):
        Gaussian(clip=Clip(4.0), sigma=6.0, noise="sum", each_row=True)


def test_the_declaration_repeats_every_field_it_was_made_from() -> None:
    mechanism = Gaussian(clip=Clip(Linear(6.0, 2.0), by="layer"), sigma=6.0, noise="row", each_row=True)
    declaration = at_bound(mechanism, 3.0).declare(place="example", layers=4, steps=100, sampling=SAMPLING)
    assert declaration == Declaration(
        place="example",
        unit=Unit.RECORD,
        steps=100,
        bound=3.0,
        sensitivity=6.0,
        sum_std=18.0 * math.sqrt(5),
        row_std=18.0,
        sampling=SAMPLING,
    )


@given(
    sigma=st.floats(0.1, 10),
    bound=st.floats(0.01, 100),
    batch=st.integers(1, 64),
    layers=st.integers(1, 12),
)
def test_the_effective_multiplier_is_that_of_the_privacy_specification(
    sigma: float, bound: float, batch: int, layers: int
) -> None:
    expected = {
        ("flat", "sum"): sigma,
        ("layer", "sum"): sigma / math.sqrt(layers),
        ("flat", "row"): sigma * math.sqrt(batch),
        ("layer", "row"): sigma * math.sqrt(batch) / math.sqrt(layers),
    }
    for (by, noise), multiplier in expected.items():
        mechanism = Gaussian(clip=Clip(bound, by=by), sigma=sigma, noise=noise)
        declaration = declared(mechanism, bound, batch, layers)
        assert declaration.sum_std / declaration.sensitivity == pytest.approx(multiplier)
        assert declaration.row_std == 0
        if noise == "row":
            by_rows = declared(replace(mechanism, each_row=True), bound, batch, layers)
            assert by_rows.row_std / by_rows.sensitivity == pytest.approx(multiplier / math.sqrt(batch))
            assert by_rows.sum_std == declaration.sum_std


def test_the_multiplier_does_not_change_when_the_bound_does() -> None:
    mechanism = Gaussian(clip=Clip(Linear(6.0, 2.0), by="layer"), sigma=6.0, noise="row")
    ratios = {
        round(d.sum_std / d.sensitivity, 12)
        for d in (declared(mechanism, mechanism.clip.at(r, 10), 5, layers=3) for r in range(10))
    }
    assert len(ratios) == 1


def test_sums_and_rows_draw_from_streams_of_their_own() -> None:
    mechanism = Gaussian(clip=Clip(1.0), sigma=1.0, noise="row", each_row=True)
    on_sum, on_rows = noised_sums(mechanism, 1.0, 1, size=500), noised_rows(mechanism, 1.0, 1, size=500)[:, 0]
    drawn = source().integers(Purpose.EXAMPLE_NOISE, CLIENTS, 500)
    assert torch.equal(on_sum, (drawn.double() / STD_CELLS).float())
    assert not torch.isclose(on_sum, on_rows).float().mean() > 0.01


@pytest.mark.parametrize("sigma", [-1.0, -1e-9, math.nan, math.inf])
def test_a_noise_scale_that_is_negative_or_not_finite_is_refused(sigma: float) -> None:
    with pytest.raises(FedveilError, match="sigma must not be negative, infinite or NaN"):
        Gaussian(clip=Clip(1.0), sigma=sigma)


def test_another_place_for_the_noise_is_refused() -> None:
    with pytest.raises(FedveilError, match="noise must be 'row' or 'sum'"):
        Gaussian(clip=Clip(1.0), sigma=1.0, noise="batch")
