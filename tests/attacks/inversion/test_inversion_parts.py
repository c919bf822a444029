"""Seeds, distances and regularisers."""

from __future__ import annotations

import pytest
import torch

from fedveil.attacks.inversion.distances import Cosine, SquaredL2, Target
from fedveil.attacks.inversion.regularisers import NoRegulariser, SquaredNorm, TotalVariation
from fedveil.attacks.inversion.seeds import Normal, Patterned, Uniform, Zeros

LAYERS = (slice(0, 4), slice(4, 6))


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_patterned_seed_is_one_tile_repeated() -> None:
    seed = Patterned().draw(3, (2, 6, 8), draws())
    assert seed.shape == (3, 2, 6, 8)
    assert torch.equal(seed[..., :3, :], seed[..., 3:, :])
    assert torch.equal(seed[..., :4], seed[..., 4:])
    assert not torch.equal(seed[..., :3, :4][0], seed[..., :3, :4][1])


def test_a_patterned_seed_fits_odd_sizes_and_rows() -> None:
    assert Patterned(3).draw(2, (1, 7, 5), draws()).shape == (2, 1, 7, 5)
    row = Patterned().draw(2, (10,), draws())
    assert torch.equal(row[:, :5], row[:, 5:])


def test_the_other_seeds_are_what_they_are_called() -> None:
    assert float(Uniform().draw(4, (1, 9, 9), draws()).min()) >= 0
    assert float(Normal().draw(4, (1, 9, 9), draws()).min()) < -1
    assert not Zeros().draw(4, (3,), draws()).any()


@pytest.mark.parametrize("distance", [SquaredL2(), SquaredL2(by="layer"), Cosine()])
def test_a_distance_is_zero_at_the_target_and_does_not_depend_on_scale(distance: SquaredL2 | Cosine) -> None:
    stolen, other = torch.randn(3, 6, generator=draws(1)), torch.randn(3, 6, generator=draws(2))
    target = Target.of(stolen, LAYERS)
    assert torch.allclose(distance.between(stolen, target), torch.zeros(3), atol=1e-6)
    larger = Target.of(1000 * stolen, LAYERS)
    assert torch.allclose(distance.between(other, target), distance.between(1000 * other, larger), rtol=1e-4)


@pytest.mark.parametrize("distance", [SquaredL2(), SquaredL2(by="layer"), Cosine()])
def test_slopes_of_distances_are_right(distance: SquaredL2 | Cosine) -> None:
    stolen = torch.randn(3, 6, generator=draws(1), dtype=torch.float64)
    shared = torch.tensor([True, True, False, True, True, True]).expand(3, -1)
    target = Target.of(stolen * shared, LAYERS, shared)
    other = torch.randn(3, 6, generator=draws(2), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: distance.between(p, target), other)


@pytest.mark.parametrize("distance", [SquaredL2(by="layer"), Cosine()])
def test_what_was_withheld_is_not_matched(distance: SquaredL2 | Cosine) -> None:
    whole = torch.randn(2, 6, generator=draws(1))
    shared = torch.tensor([True, False, True, True, False, True]).expand(2, -1)
    target = Target.of(whole * shared, LAYERS, shared)
    assert torch.allclose(distance.between(whole, target), torch.zeros(2), atol=1e-6)


def test_counted_by_layer_a_small_layer_weighs_as_much_as_a_large_one() -> None:
    stolen = torch.tensor([[100.0, 0, 0, 0, 1, 0]])
    target = Target.of(stolen, LAYERS)
    off = torch.tensor([[100.0, 0, 0, 0, 0, 0]])
    assert float(SquaredL2(by="layer").between(off, target)) == pytest.approx(0.5)
    assert float(SquaredL2().between(off, target)) == pytest.approx(1e-4, rel=1e-3)


def test_regularisers_prefer_what_they_say() -> None:
    flat, noisy = torch.full((2, 1, 1, 6, 6), 0.5), torch.rand(2, 1, 1, 6, 6, generator=draws())
    assert not TotalVariation(1.0).of(flat).any()
    assert (TotalVariation(1.0).of(noisy) > 0.1).all()
    assert not SquaredNorm(1.0).of(flat).any()
    assert (SquaredNorm(1.0).of(noisy) > 0.01).all()
    assert not NoRegulariser().of(noisy).any()
    assert not TotalVariation(1.0).of(torch.rand(2, 3, 9)).any()
