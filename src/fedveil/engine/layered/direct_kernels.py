"""Convolutions of the layered path by the kernels in C, where this machine has them: no patches, no copies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedveil.native.calls import VECTOR_WIDTHS
from fedveil.native.small_layers import MOST_TAPS, ConvolutionShape

if TYPE_CHECKING:
    from fedveil.engine.layered.convolution_leaf import Window

MOST_CHANNELS = 128
"""Beyond so many channels or filters the library's convolution is faster (measured)."""


def takes(pictures: Tensor, kernels: Tensor, window: Window) -> bool:
    """Whether pictures `[K, S, H, W, C]` and kernels `[K, O, C, h, w]` are for these kernels."""
    narrow = max(kernels.shape[1], kernels.shape[2]) <= MOST_CHANNELS and kernels[0, 0].numel() <= MOST_TAPS
    here = pictures.device.type == "cpu" and pictures.dtype == torch.float32 and pictures.numel() > 0
    return bool(VECTOR_WIDTHS) and narrow and here and window.spread == (1, 1)


def convolve_directly(pictures: Tensor, kernels: Tensor, window: Window, out: Tensor) -> None:
    """Write outputs `[K, S, H', W', O]`."""
    shape = _shape(pictures.shape, kernels.shape[1], window).seen_through(kernels)
    shape.convolve(kernels, pictures, out, VECTOR_WIDTHS[0])


def by_inputs(delta: Tensor, kernels: Tensor, window: Window, out: Tensor) -> None:
    """Write the derivative by the pictures, from that by the outputs.

    Of every so many pixels, as many as the window moves, it is a convolution with every so many of the kernel's taps.
    """
    backwards = kernels.transpose(1, 2)
    found, untouched = _ways_back(out.shape, kernels.shape[1], window)
    if untouched:
        out.zero_()
    for shape, rows, columns in found:
        taps = backwards[..., rows, columns]
        shape.seen_through(taps, turned=True).convolve(taps, delta, out, VECTOR_WIDTHS[0])


def rows(pictures: Tensor, delta: Tensor, window: Window, norms: Tensor, out: Tensor) -> None:
    """Write every picture's gradient by the kernels into `out` `[K, S, h·w·C·O]`, in this order."""
    shape = _shape(pictures.shape, delta.shape[-1], window)
    shape.gradients(pictures, delta, delta, norms, out, VECTOR_WIDTHS[0])


def summed(pictures: Tensor, delta: Tensor, window: Window, out: Tensor) -> None:
    """Write the sum of a client's gradients into `out` `[K, O·C·h·w]`."""
    _shape(pictures.shape, delta.shape[-1], window).summed(pictures, delta, delta, out, VECTOR_WIDTHS[0])


@dataclass(frozen=True)
class _Phase:
    """Every so many pixels of a line of the picture, which the same taps of a kernel have seen."""

    taps: slice
    pixels: int
    first: int  # pixel of the picture
    border: int  # around the outputs' derivatives, of which so many are skipped
    skipped: int


def _phases(size: int, outputs: int, kernel: int, stride: int, padding: int) -> list[_Phase]:
    """Where n is a tap's place, output o saw the pixel o·stride + n − padding: pixels with alike n belong together."""
    found = []
    for start in range(min(stride, kernel)):
        taps = -(-(kernel - start) // stride)
        low = max(-(-(padding - start) // stride), 0)  # the pixel at `low`·stride + start − padding is the first
        high = min((size - 1 + padding - start) // stride, outputs + taps - 2)
        border = max(taps - 1 - low, high - outputs + 1, 0)
        if high >= low:
            first = low * stride + start - padding
            found.append(_Phase(slice(start, None, stride), high - low + 1, first, border, border - (taps - 1 - low)))
    return found


@lru_cache(maxsize=64)
def _ways_back(
    pictures: torch.Size, filters: int, window: Window
) -> tuple[list[tuple[ConvolutionShape, slice, slice]], bool]:
    """Convolutions that write the derivative by the pictures with their taps, and whether they leave pixels out."""
    clients, slots, height, width, channels = pictures
    (tall, broad), (down, across) = window.places(height, width), window.stride
    (kernel_height, kernel_width), (top, left) = window.kernel, window.padding
    found, pixels = [], 0
    for rows in _phases(height, tall, kernel_height, down, top):
        for columns in _phases(width, broad, kernel_width, across, left):
            taps = len(range(kernel_height)[rows.taps]), len(range(kernel_width)[columns.taps])
            shape = ConvolutionShape(
                clients,
                slots,
                filters * channels * taps[0] * taps[1],
                0,
                -1,
                filters,
                channels,
                tall,
                broad,
                *taps,
                1,
                1,
                rows.border,
                columns.border,
                rows.pixels,
                columns.pixels,
                planar=False,
                brief=True,
                relu=False,
                skip_height=rows.skipped,
                skip_width=columns.skipped,
                step_height=down,
                step_width=across,
                place_height=rows.first,
                place_width=columns.first,
                whole_height=height,
                whole_width=width,
            )
            found.append((shape, rows.taps, columns.taps))
            pixels += rows.pixels * columns.pixels
    return found, pixels < height * width


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
