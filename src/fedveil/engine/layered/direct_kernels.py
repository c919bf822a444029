"""Convolutions of the layered path by the kernels in C, where this machine has them: no patches, no copies."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedveil.native.calls import VECTOR_WIDTHS
from fedveil.native.small_layers import MOST_TAPS, ConvolutionShape

if TYPE_CHECKING:
    from fedveil.engine.layered.convolution_leaf import Window

MOST_CHANNELS = 64
"""Beyond so many channels or filters the library's convolution is faster (measured)."""


def takes(pictures: Tensor, kernels: Tensor, window: Window) -> bool:
    """Whether pictures `[K, S, H, W, C]` and kernels `[K, O, C, h, w]` are for these kernels."""
    narrow = max(kernels.shape[1], kernels.shape[2]) <= MOST_CHANNELS and kernels[0, 0].numel() <= MOST_TAPS
    here = pictures.device.type == "cpu" and pictures.dtype == torch.float32 and pictures.numel() > 0
    return bool(VECTOR_WIDTHS) and narrow and here and window.spread == (1, 1)


def convolve_directly(pictures: Tensor, kernels: Tensor, window: Window, out: Tensor) -> None:
    """Write outputs `[K, S, H', W', O]`."""
    _shape(pictures.shape, kernels.shape[1], window).convolve(_flat(kernels), pictures, out, VECTOR_WIDTHS[0])


def by_inputs(delta: Tensor, kernels: Tensor, window: Window, out: Tensor) -> None:
    """Write the derivative by the pictures, from that by the outputs: a convolution too, where nothing is skipped."""
    mirrored = window.mirrored
    if mirrored is not None:
        convolve_directly(delta, kernels.flip(3, 4).transpose(1, 2), mirrored, out)
        return
    _shape(out.shape, kernels.shape[1], window).reverse(_flat(kernels), delta, delta, out, VECTOR_WIDTHS[0])


def rows(pictures: Tensor, delta: Tensor, window: Window, norms: Tensor, out: Tensor) -> None:
    """Write every picture's gradient by the kernels into `out` `[K, S, h·w·C·O]`, in this order."""
    shape = _shape(pictures.shape, delta.shape[-1], window)
    shape.gradients(pictures, delta, delta, norms, out, VECTOR_WIDTHS[0])


def summed(pictures: Tensor, delta: Tensor, window: Window, out: Tensor) -> None:
    """Write the sum of a client's gradients into `out` `[K, O·C·h·w]`."""
    _shape(pictures.shape, delta.shape[-1], window).summed(pictures, delta, delta, out, VECTOR_WIDTHS[0])


def _flat(kernels: Tensor) -> Tensor:
    return kernels.reshape(len(kernels), -1).contiguous()


@lru_cache(maxsize=64)
def _shape(pictures: torch.Size, filters: int, window: Window) -> ConvolutionShape:
    clients, slots, height, width, channels = pictures
    return ConvolutionShape(
        clients,
        slots,
        filters * channels * window.kernel[0] * window.kernel[1],
        0,
        -1,
        channels,
        filters,
        height,
        width,
        *window.kernel,
        *window.stride,
        *window.padding,
        *window.places(height, width),
        planar=False,
        brief=True,
        relu=False,
    )
