"""The layered path's convolutions in C, and their ways back, against PyTorch's."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn.functional import conv2d

from fedveil.engine.layered import direct_kernels
from fedveil.engine.layered.convolution_leaf import Window
from fedveil.engine.layered.direct_kernels import by_inputs, convolve_directly
from fedveil.native.calls import VECTOR_WIDTHS

pytestmark = pytest.mark.skipif(not VECTOR_WIDTHS, reason="no compiler, or a processor without AVX2")

two = st.tuples


@pytest.mark.parametrize("lanes", VECTOR_WIDTHS)
@given(
    kernel=two(st.integers(1, 5), st.integers(1, 5)),
    stride=two(st.integers(1, 4), st.integers(1, 4)),
    padding=two(st.integers(0, 4), st.integers(0, 4)),
    size=two(st.integers(1, 11), st.integers(1, 11)),
    channels=st.sampled_from([1, 3, 16, 20]),
    filters=st.sampled_from([1, 5, 16, 33]),
    apart=st.sampled_from([0, 7]),
)
@settings(max_examples=100, deadline=None)
def test_outputs_and_derivatives_are_those_of_pytorch_however_far_a_kernel_moves(
    lanes: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    size: tuple[int, int],
    channels: int,
    filters: int,
    apart: int,
) -> None:
    window = Window(kernel, stride, padding)
    places = window.places(*size)
    assume(min(places) > 0)
    generator = torch.Generator().manual_seed(channels * filters)
    weights = filters * channels * kernel[0] * kernel[1]
    flat = torch.randn(2, weights + apart, generator=generator)  # among other parameters
    kernels = flat[:, :weights].view(2, filters, channels, *kernel)
    pictures = torch.randn(2, 3, *size, channels, generator=generator)
    delta = torch.randn(2, 3, *places, filters, generator=generator)
    out, back = torch.full_like(delta, torch.nan), torch.full_like(pictures, torch.nan)
    with patch.object(direct_kernels, "VECTOR_WIDTHS", (lanes,)):
        convolve_directly(pictures, kernels, window, out)
        by_inputs(delta, kernels, window, back)
    for k in range(2):
        own = pictures[k].double().movedim(-1, 1).requires_grad_()
        made = conv2d(own, kernels[k].double(), stride=stride, padding=padding)
        (expected,) = torch.autograd.grad(made, own, delta[k].double().movedim(-1, 1))
        assert torch.allclose(out[k].double(), made.detach().movedim(1, -1), atol=1e-4)
        assert torch.allclose(back[k].double(), expected.movedim(1, -1), atol=1e-4)


def test_kernels_that_lie_otherwise_than_said_are_refused() -> None:
    kernels = torch.zeros(2, 4, 3, 3, 3)
    pictures, out = torch.zeros(2, 1, 6, 6, 3), torch.zeros(2, 1, 4, 4, 4)
    shape = direct_kernels._shape(pictures.shape, 4, Window((3, 3))).seen_through(kernels)
    with pytest.raises(ValueError, match="does not fit"):
        shape.convolve(kernels.transpose(3, 4), pictures, out, VECTOR_WIDTHS[0])
    with pytest.raises(ValueError, match="does not fit"):
        shape.convolve(kernels[:, :3], pictures, out, VECTOR_WIDTHS[0])
