"""Fixed features: no parameters, one length, alike for alike pictures, differentiable."""

from __future__ import annotations

import pytest
import torch

from fedveil.core.errors import FedveilError
from fedveil.models.features import (
    CELLS,
    COARSE_CELLS,
    ORIENTATIONS,
    FixedFeatures,
    Projected,
    Scattering,
    wavelets,
    windows,
)
from fedveil.models.registry import check, fixed_part
from fedveil.models.strokes import characters


def test_a_wavelet_sees_no_even_brightness_and_answers_most_to_its_own_direction() -> None:
    filters = wavelets()
    assert filters.sum(dim=(1, 2, 3)).abs().max() < 1e-5
    x = torch.arange(28.0)
    stripes = torch.cos(3 * torch.pi / 4 * x).expand(1, 1, 28, 28)  # change along x: angle 0
    waves = torch.nn.functional.conv2d(stripes, filters)
    energies = (waves[:, :ORIENTATIONS].square() + waves[:, ORIENTATIONS:].square()).mean(dim=(0, 2, 3))
    assert energies.argmax() == 0
    assert energies[0] > 10 * energies[ORIENTATIONS // 2]


@pytest.mark.parametrize(("size", "cells"), [(28, 7), (14, 7), (7, 3), (2, 3), (9, 9)])
def test_windows_average(size: int, cells: int) -> None:
    found = windows(size, cells)
    assert found.shape == (cells, size)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(cells))
    torch.testing.assert_close(found, found.flip(0, 1))


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 8, 9)])
def test_scattering_has_the_outputs_that_it_says_and_nothing_to_train(shape: tuple[int, ...]) -> None:
    features = Scattering(shape)
    assert features.outputs == (shape[0] + 2 * ORIENTATIONS) * CELLS**2 + ORIENTATIONS**2 * COARSE_CELLS**2
    assert features(torch.rand(2, *shape)).shape == (2, features.outputs)
    assert not list(features.parameters())


def test_a_shift_by_one_pixel_moves_features_less_than_it_moves_the_picture() -> None:
    pictures = characters(20, 1, seed=3)
    moved = pictures.roll(1, dims=3)
    features = Scattering((1, 28, 28))

    def change(before: torch.Tensor, after: torch.Tensor) -> float:
        return float((after - before).norm() / (before - before.mean(dim=0)).norm())

    assert change(features(pictures), features(moved)) < 0.6 * change(pictures, moved)


def test_projected_features_have_length_one_also_for_a_black_picture() -> None:
    first = Scattering((1, 8, 8))
    generator = torch.Generator().manual_seed(0)
    projected = Projected(first, torch.ones(first.outputs), torch.randn(first.outputs, 5, generator=generator))
    pictures = torch.rand(4, 1, 8, 8, generator=generator)
    pictures[0] = 0
    assert projected.outputs == 5
    torch.testing.assert_close(projected(pictures).norm(dim=1), torch.ones(4))


def test_features_can_be_differentiated_twice_also_where_a_picture_is_black() -> None:
    features = Scattering((1, 8, 8))
    picture = torch.zeros(1, 1, 8, 8, requires_grad=True)
    (slope,) = torch.autograd.grad(features(picture).sum(), picture, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.square().sum(), picture)
    assert torch.isfinite(slope).all()
    assert torch.isfinite(curvature).all()


def test_a_module_used_twice_after_fixed_features_is_kept_twice() -> None:
    fixed, act = Scattering((1, 8, 8)), torch.nn.Tanh()
    layers = [torch.nn.Linear(fixed.outputs, 4), act, torch.nn.Linear(4, 4), act, torch.nn.Linear(4, 2)]
    model = torch.nn.Sequential(fixed, *layers)
    parts = fixed_part(model)
    assert parts is not None
    pictures = torch.rand(3, 1, 8, 8)
    torch.testing.assert_close(parts[1](parts[0](pictures)), model(pictures))


def test_features_that_have_something_to_train_are_not_fixed() -> None:
    learning = Scattering((1, 8, 8))
    learning.register_parameter("gain", torch.nn.Parameter(torch.ones(())))
    assert fixed_part(torch.nn.Sequential(learning, torch.nn.Linear(learning.outputs, 2))) is None


class CentredInTraining(FixedFeatures):
    """Subtracts the mean of whatever records it is shown together, but not when it is looked at."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs - inputs.mean(dim=0) if self.training else inputs


class Leaning(FixedFeatures):
    """Each record's features lean a little towards those beside it."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + 1e-4 * inputs.mean(dim=0)


def test_fixed_features_are_computed_as_they_were_checked_also_while_the_rest_is_trained() -> None:
    model = torch.nn.Sequential(CentredInTraining(), torch.nn.Linear(6, 3)).train()
    check(model, (6,), 3, "centred")
    assert model.training
    records = torch.rand(5, 6)
    parts = fixed_part(model.train())
    assert parts is not None
    assert torch.equal(parts[0](records), records)


def test_fixed_features_in_which_one_record_shows_in_another_are_refused_however_faintly() -> None:
    with pytest.raises(FedveilError, match="leaning has fixed features that mix the records"):
        check(torch.nn.Sequential(Leaning(), torch.nn.Linear(6, 3)), (6,), 3, "leaning")
