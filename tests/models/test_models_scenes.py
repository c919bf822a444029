"""Drawn scenes: the same from the same seed, with edges everywhere, and what `whitened` makes of them."""

from __future__ import annotations

import torch

from fedveil.models.scenes import leaves, silhouettes, whitened


def test_scenes_are_a_function_of_their_seed() -> None:
    for draw in (lambda seed: leaves(3, 3, 16, seed), lambda seed: silhouettes(3, 16, seed)):
        assert torch.equal(draw(1), draw(1))
        assert not torch.equal(draw(1), draw(2))


def test_leaves_fill_the_picture_in_all_tones_and_colours() -> None:
    scenes = leaves(40, 3, 32, seed=0)
    assert scenes.shape == (40, 3, 32, 32)
    assert scenes.min() >= 0
    assert scenes.max() <= 1
    assert 0.3 < scenes.mean() < 0.7
    assert (scenes[:, 0] - scenes[:, 2]).abs().mean() > 0.05
    steps = scenes.diff(dim=-1).abs()
    assert steps.mean() < 0.1 < steps.amax(dim=(1, 2, 3)).min()  # mostly even, with edges in every picture


def test_silhouettes_are_things_on_a_black_ground() -> None:
    things = silhouettes(60, 28, seed=0)
    assert things.shape == (60, 1, 28, 28)
    black = (things == 0).float().mean(dim=(1, 2, 3))
    assert 0.1 < black.mean() < 0.9
    assert things.amax(dim=(1, 2, 3)).median() > 0.4


def test_whitened_features_vary_equally_except_those_that_hardly_vary() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(4000, 4, generator=generator) * torch.tensor([10.0, 3.0, 1.0, 1e-3]) + 5
    mean, basis = whitened(features, outputs=4, shrinkage=1e-3)
    turned = (features - mean) @ basis
    torch.testing.assert_close(mean, features.mean(dim=0), atol=1e-4, rtol=1e-4)
    spread = turned.std(dim=0)
    torch.testing.assert_close(spread[:3], torch.ones(3), atol=0.03, rtol=0)
    assert spread[3] < 0.01
    assert whitened(features, outputs=2, shrinkage=1e-3)[1].shape == (4, 2)
