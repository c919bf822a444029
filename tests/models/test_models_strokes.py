"""Drawn characters: the same from the same seed, pictures of strokes, and what `contrast` makes of them."""

from __future__ import annotations

import torch

from fedveil.models.strokes import characters, contrast


def test_characters_are_a_function_of_their_seed() -> None:
    assert torch.equal(characters(3, 4, seed=1), characters(3, 4, seed=1))
    assert not torch.equal(characters(3, 4, seed=1), characters(3, 4, seed=2))


def test_characters_are_white_strokes_on_black_in_the_middle() -> None:
    drawn = characters(50, 2, seed=0)
    assert drawn.shape == (100, 1, 28, 28)
    assert drawn.min() == 0
    assert drawn.amax(dim=(1, 2, 3)).min() > 0.5
    assert 0.02 < drawn.mean() < 0.4
    assert drawn[..., :2].mean() < 0.1 * drawn[..., 10:18].mean()


def test_samples_of_a_character_are_nearer_to_each_other_than_to_other_characters() -> None:
    groups = characters(40, 10, seed=0).view(40, 10, -1)
    within = (groups - groups.mean(dim=1, keepdim=True)).square().sum()
    overall = (groups - groups.mean(dim=(0, 1))).square().sum()
    assert within < 0.9 * overall


def test_contrast_finds_the_direction_that_tells_groups_apart_and_not_the_loudest_one() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(30, 20, 4, generator=generator) * torch.tensor([10.0, 1.0, 1.0, 1.0])
    centres = torch.randn(30, 1, 4, generator=generator) * torch.tensor([0.0, 0.0, 3.0, 0.0])
    mean, basis = contrast((noise + centres).flatten(0, 1), kinds=30, outputs=1, shrinkage=1e-3)
    assert mean.shape == (4,)
    assert basis.shape == (4, 1)
    assert basis[:, 0].abs().argmax() == 2
    assert basis[2, 0] > 5 * basis[[0, 1, 3], 0].abs().max()


def test_within_groups_the_directions_are_independent_and_fall_from_one() -> None:
    generator = torch.Generator().manual_seed(1)
    features = (torch.randn(50, 40, 3, generator=generator) * torch.tensor([5.0, 0.5, 2.0])).flatten(0, 1)
    _, basis = contrast(features, kinds=50, outputs=3, shrinkage=0.0)
    groups = (features @ basis).view(50, 40, 3)
    within = (groups - groups.mean(dim=1, keepdim=True)).flatten(0, 1)
    spread = within.T @ within / len(within)
    torch.testing.assert_close(spread, torch.diag(spread.diagonal()), atol=1e-3, rtol=0)
    assert 1.001 > spread[0, 0] > spread[1, 1] > spread[2, 2] > 0
