"""How far noise of the declared size may lie off it by chance, and no farther."""

from __future__ import annotations

import pytest
import torch

from fedveil.engine.chance import as_declared


@pytest.mark.parametrize("level", [0.0, 0.5, 0.9, 1.1, 2.0, float("nan"), float("inf")])
def test_noise_of_another_level_is_not_as_declared(level: float) -> None:
    assert not as_declared((3.0 * level) ** 2, 3.0, 20_000)


def test_noise_of_the_declared_level_is_as_declared() -> None:
    assert as_declared(9.0, 3.0, 20_000)
    assert as_declared(9.0 * 1.03, 3.0, 20_000)
    assert as_declared(0.0, 0.0, 20_000)
    assert not as_declared(1e-9, 0.0, 20_000)


@pytest.mark.parametrize("count", [1, 5, 83, 97])
def test_no_noise_at_all_is_never_as_declared_however_small_the_model(count: int) -> None:
    assert not as_declared(0.0, 3.0, count)


@pytest.mark.parametrize("level", [0.0, 0.5, 1.6, 2.0])
def test_half_and_double_the_noise_of_a_hundred_coordinates_are_not_as_declared(level: float) -> None:
    assert not as_declared((3.0 * level) ** 2, 3.0, 100)


@pytest.mark.parametrize("count", [1, 4, 20, 100, 2_000])
def test_noise_as_it_should_be_is_as_declared_for_every_size_of_model(count: int) -> None:
    drawn = 3.0 * torch.randn(200_000 // count, count, generator=torch.Generator().manual_seed(count))
    assert all(as_declared(mean, 3.0, count) for mean in drawn.double().square().mean(dim=-1).tolist())
