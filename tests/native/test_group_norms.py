"""Normalisation by groups against PyTorch's own, on every width of vectors of this machine and without kernels."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import group_norm

from fedveil.native import group_norms
from fedveil.native.calls import VECTOR_WIDTHS
from fedveil.native.group_norms import normalise, normalise_back

EPS = 0.1
WIDTHS = [0, *VECTOR_WIDTHS]


@pytest.mark.parametrize("lanes", WIDTHS)
@given(
    clients=st.integers(1, 3),
    pictures=st.integers(1, 3),
    groups=st.integers(1, 5),
    members=st.integers(1, 9),
    points=st.integers(2, 20) | st.sampled_from([255, 256, 257, 700]),
    far=st.sampled_from([0.0, 5.0]),
)
@settings(max_examples=60, deadline=None)
def test_values_and_derivatives_are_those_of_pytorch(
    lanes: int, clients: int, pictures: int, groups: int, members: int, points: int, far: float
) -> None:
    generator = torch.Generator().manual_seed(points)
    channels = groups * members
    images = far + torch.randn(clients * pictures, points, channels, generator=generator)
    scale, shift = torch.randn(2, clients, channels, generator=generator)
    delta = torch.randn(images.shape, generator=generator)

    own = images.double().requires_grad_()
    weights = [value.double().repeat_interleave(pictures, dim=0).requires_grad_() for value in (scale, shift)]
    unit = group_norm(own.mT, groups, eps=EPS).mT
    expected = unit * weights[0].unsqueeze(1) + weights[1].unsqueeze(1)
    by_inputs, by_scale, by_shift = torch.autograd.grad(expected, [own, *weights], delta.double())

    with patch.object(group_norms, "VECTOR_WIDTHS", (lanes,) if lanes else ()):
        out, found = normalise(images, scale, shift, groups, EPS)
        rows, back = normalise_back(images, delta, scale, found, groups, through=True)
        rows_alone, nothing = normalise_back(images, delta, scale, found, groups, through=False)
    assert back is not None
    error = 3e-6 * (1 + far)  # what single precision loses of numbers far from zero
    for made, wanted in ((out, expected), (rows[:, 0], by_scale), (rows[:, 1], by_shift), (back, by_inputs)):
        size = max(float(wanted.detach().abs().max()), points**0.5)
        assert torch.allclose(made.double(), wanted.detach(), rtol=0, atol=error * size)
    assert torch.equal(rows, rows_alone)
    assert nothing is None


@pytest.mark.parametrize("lanes", WIDTHS)
def test_what_is_no_number_stays_in_its_own_image(lanes: int) -> None:
    images = torch.randn(4, 300, 18)
    images[1, 299, 17] = torch.nan
    with patch.object(group_norms, "VECTOR_WIDTHS", (lanes,) if lanes else ()):
        out, _ = normalise(images, torch.ones(2, 18), torch.zeros(2, 18), 6, EPS)
    bad = out.isnan().any(dim=1)
    assert bad[1, 15:].all()
    assert not bad[1, :15].any()
    assert not bad[[0, 2, 3]].any()


@pytest.mark.parametrize("lanes", WIDTHS)
def test_an_image_far_from_zero_loses_no_more_than_rounding_takes(lanes: int) -> None:
    points = 200_000
    images = 1000 + torch.randn(1, points, 1, generator=torch.Generator().manual_seed(0))
    with patch.object(group_norms, "VECTOR_WIDTHS", (lanes,) if lanes else ()):
        _, found = normalise(images, torch.ones(1, 1), torch.zeros(1, 1), 1, 0.0)
    assert float(found[0, 0, 0]) == pytest.approx(float(images.double().mean()), rel=1e-6)
    assert float(found[0, 1, 0]) == pytest.approx(1 / float(images.double().std(correction=0)), rel=1e-5)


@pytest.mark.parametrize(("groups", "clients", "channels"), [(4, 2, 6), (0, 2, 6), (3, 3, 6), (3, 2, 5)])
def test_memory_that_does_not_fit_is_refused(groups: int, clients: int, channels: int) -> None:
    images, weights = torch.zeros(4, 5, 6), torch.zeros(clients, channels)
    with pytest.raises(ValueError, match=r"do not fit|are not"):
        normalise(images, weights, weights, groups, EPS)
    with pytest.raises(ValueError, match=r"do not fit|are not"):
        normalise_back(images, images, weights, torch.zeros(4, 2, 6), groups, through=True)
