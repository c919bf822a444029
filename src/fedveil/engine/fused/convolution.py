"""Convolutions between layers, for many clients at once, as matrix products over image patches."""

from __future__ import annotations

from abc import abstractmethod
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import conv_transpose2d

from fedveil.core.norms import lengths
from fedveil.engine.fused.geometry import Geometry, window_view
from fedveil.engine.fused.stages import Layer
from fedveil.engine.fused.workspace import LANES, Shelf

_LARGE_PATCHES = 200_000
"""Numbers in all of one client's patches of `delta`, above which the library's convolution is faster (measured)."""


class AnyConvolution(Layer):
    """What all forms share: per-example gradients, measured and then summed with their factors.

    The bias rides along as one more weight (one more of the `columns`) whose patch entry is always one.
    """

    def __init__(self, group: int, geometry: Geometry, weight: slice, bias: slice | None) -> None:
        self.group = group
        self.geometry = geometry
        self.weight = weight
        self.bias = bias
        self.columns = geometry.taps + (bias is not None)

    def measure(self, delta: Tensor, shelf: Shelf) -> Tensor:
        return lengths(self.gradients(delta, shelf))

    def collect(self, factors: Tensor, total: Tensor, shelf: Shelf) -> None:
        gradients = self.gradient_buffer(shelf)
        summed = shelf.buffer("summed", 1, gradients.shape[-1])
        torch.bmm(factors.unsqueeze(1), gradients, out=summed)
        self.write(summed.squeeze(1), total)

    def rows(self, rows: Tensor, shelf: Shelf) -> None:
        self.write(self.gradient_buffer(shelf), rows)

    def gradient_buffer(self, shelf: Shelf) -> Tensor:
        return shelf.buffer("gradients", shelf.slots, self.geometry.filters * self.columns)

    @abstractmethod
    def gradients(self, delta: Tensor, shelf: Shelf) -> Tensor:
        """Fill the gradient buffer with every example's gradient, in this form's own order."""

    @abstractmethod
    def write(self, gradient: Tensor, flat: Tensor) -> None:
        """Put gradients `[..., filters · columns]`, in this form's order, into their place in `[..., P]`."""

    def shaped_weight(self, flat: Tensor) -> Tensor:
        """The view `[..., filters, channels, area]` of the weights in `flat` `[..., P]`."""
        geometry = self.geometry
        return torch.unflatten(flat[..., self.weight], -1, (geometry.filters, geometry.channels, geometry.area))


class _Forward(NamedTuple):
    """Memory of the forward pass: images with a border, all their patches, the weights, the outputs."""

    inside: Tensor
    windows: Tensor
    patches_as_windows: Tensor
    patches: Tensor
    matrix: Tensor
    matrix_weights: Tensor
    outputs: Tensor
    image: Tensor


class _Backward(NamedTuple):
    """Memory of the backward pass; `pieces` pairs places in `matrix` with the kernel parts that go there."""

    padded: Tensor
    windows: Tensor
    patches_as_windows: Tensor
    patches: Tensor
    pieces: list[tuple[Tensor, slice, slice]]
    matrix: Tensor
    products: Tensor
    phases: Tensor
    spread: Tensor
    image: Tensor


class Convolution(AnyConvolution):
    """A convolution of channels-last images `[K, B, H, W, C]`.

    Patches are `[K, B · pixels, columns]`, a filter's weights in the order (row, column, channel). The
    gradient by the input takes the sub-pixel form: one product with small patches of `delta`, no scattered
    additions.
    """

    def forward(self, inputs: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        memory = shelf.once("forward", self._prepare_forward)
        memory.inside.copy_(inputs)
        memory.patches_as_windows.copy_(memory.windows)
        memory.matrix_weights.copy_(self.shaped_weight(parameters).permute(0, 3, 2, 1))
        if self.bias is not None:
            memory.matrix[:, -1].copy_(parameters[:, self.bias])
        torch.bmm(memory.patches, memory.matrix, out=memory.outputs)
        return memory.image

    def _prepare_forward(self, shelf: Shelf) -> _Forward:
        geometry, slots = self.geometry, shelf.slots
        padded = shelf.buffer("padded", slots, *geometry.padded, geometry.channels, fill=0.0)
        pitch = -(-self.columns // LANES) * LANES
        patches = shelf.buffer("patches", slots * geometry.pixels, pitch, fill=1.0)[..., : self.columns]
        matrix = shelf.buffer("matrix", self.columns, geometry.filters)
        outputs = shelf.buffer("outputs", slots * geometry.pixels, geometry.filters)
        return _Forward(
            inside=geometry.inside(padded, 2),
            windows=window_view(padded, geometry.kernel, geometry.stride, geometry.output),
            patches_as_windows=patches[..., : geometry.taps].view(
                -1, slots, *geometry.output, geometry.kernel[0], geometry.taps // geometry.kernel[0]
            ),
            patches=patches,
            matrix=matrix,
            matrix_weights=matrix[:, : geometry.taps].view(-1, geometry.area, geometry.channels, geometry.filters),
            outputs=outputs,
            image=outputs.view(-1, slots, *geometry.output, geometry.filters),
        )

    def gradients(self, delta: Tensor, shelf: Shelf) -> Tensor:
        geometry = self.geometry
        gradients = self.gradient_buffer(shelf)
        torch.bmm(
            delta.reshape(-1, geometry.pixels, geometry.filters).mT,
            shelf.once("forward", self._prepare_forward).patches.view(-1, geometry.pixels, self.columns),
            out=gradients.view(-1, geometry.filters, self.columns),
        )
        return gradients

    def accumulate(self, delta: Tensor, total: Tensor, shelf: Shelf) -> None:
        geometry = self.geometry
        summed = shelf.buffer("summed", 1, geometry.filters * self.columns)
        torch.bmm(
            delta.reshape(shelf.clients, -1, geometry.filters).mT,
            shelf.once("forward", self._prepare_forward).patches,
            out=summed.view(-1, geometry.filters, self.columns),
        )
        self.write(summed.squeeze(1), total)

    def write(self, gradient: Tensor, flat: Tensor) -> None:
        geometry = self.geometry
        shaped = torch.unflatten(gradient, -1, (geometry.filters, self.columns))
        weights = torch.unflatten(shaped[..., : geometry.taps], -1, (geometry.area, geometry.channels))
        self.shaped_weight(flat).copy_(weights.mT)
        if self.bias is not None:
            flat[..., self.bias].copy_(shaped[..., geometry.taps])

    def backward(self, delta: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        if self._patches_too_large(shelf.slots):
            return self._library_backward(delta, parameters, shelf)
        memory = shelf.once("backward", self._prepare_backward)
        self._pad_delta(delta, memory.padded)
        memory.patches_as_windows.copy_(memory.windows)
        kernels = torch.unflatten(self.shaped_weight(parameters), -1, self.geometry.kernel)
        kernels = kernels.permute(0, 1, 3, 4, 2)
        for target, rows, columns in memory.pieces:
            target.copy_(kernels[:, :, rows, columns])
        torch.bmm(memory.patches, memory.matrix, out=memory.products)
        if self.geometry.stride != (1, 1):
            memory.spread.copy_(memory.phases)
        return memory.image

    def _prepare_backward(self, shelf: Shelf) -> _Backward:
        geometry, (rows, columns), slots = self.geometry, self.geometry.reverse, shelf.slots
        (down, right), channels, filters = geometry.stride, geometry.channels, geometry.filters
        count, taps = (rows.count, columns.count), (rows.taps, columns.taps)
        padded = shelf.buffer("padded delta", slots, rows.extent, columns.extent, filters, fill=0.0)
        patches = shelf.buffer("delta patches", slots, *count, taps[0], taps[1] * filters)
        matrix = shelf.buffer("reversed", *taps, filters, down, right, channels, fill=0.0)
        products = shelf.buffer("phases", slots, *count, down, right * channels)
        spread = products
        if geometry.stride != (1, 1):
            spread = shelf.buffer("spread", slots, rows.count, down, columns.count, right * channels)
        image = spread.view(-1, slots, rows.count * down, columns.count * right, channels)
        return _Backward(
            padded=padded,
            windows=window_view(padded, taps, (1, 1), count),
            patches_as_windows=patches,
            patches=patches.view(shelf.clients, slots * rows.count * columns.count, -1),
            pieces=self._pieces(matrix),
            matrix=matrix.view(shelf.clients, taps[0] * taps[1] * filters, -1),
            products=products.view(shelf.clients, slots * rows.count * columns.count, -1),
            phases=products.transpose(3, 4),
            spread=spread,
            image=image.narrow(2, rows.skip, geometry.size[0]).narrow(3, columns.skip, geometry.size[1]),
        )

    def _pieces(self, matrix: Tensor) -> list[tuple[Tensor, slice, slice]]:
        """Which part of a kernel goes where in (tap row, tap column, filter) × (phase row, column, channel).

        Taps run backwards. Where the kernel is no multiple of the stride, the rest of the matrix stays zero.
        """
        (rows, columns), (height, width) = self.geometry.reverse, self.geometry.kernel
        down, right = self.geometry.stride
        pieces = []
        for row, column in product(range(rows.taps), range(columns.taps)):
            vertical = slice(row * down, min((row + 1) * down, height))
            horizontal = slice(column * right, min((column + 1) * right, width))
            target = matrix[:, rows.taps - 1 - row, columns.taps - 1 - column]
            target = target[:, :, : vertical.stop - vertical.start, : horizontal.stop - horizontal.start]
            pieces.append((target, vertical, horizontal))
        return pieces

    def _pad_delta(self, delta: Tensor, padded: Tensor) -> None:
        """Put `delta` between the zeros, cut to the outputs that inputs reach."""
        target, axes = padded, zip(self.geometry.reverse, self.geometry.output, strict=True)
        for dimension, (axis, size) in enumerate(axes, start=2):
            low, high = max(axis.first_output, 0), min(axis.first_output + axis.extent, size)
            delta = delta.narrow(dimension, low, high - low)
            target = target.narrow(dimension, low - axis.first_output, high - low)
        target.copy_(delta)

    def _patches_too_large(self, slots: int) -> bool:
        """Whether moving patches of `delta` costs more than the library's convolution, client by client."""
        return self.geometry.stride == (1, 1) and slots * self._delta_patch_floats > _LARGE_PATCHES

    def _library_backward(self, delta: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        geometry = self.geometry
        weights = torch.unflatten(self.shaped_weight(parameters), -1, geometry.kernel)
        result = shelf.buffer("spread", shelf.slots, *geometry.size, geometry.channels)
        for client in range(shelf.clients):
            # Seen as planes, channels-last images are what the library is fastest with: nothing is moved.
            image = conv_transpose2d(delta[client].permute(0, 3, 1, 2), weights[client], padding=geometry.padding)
            result[client].copy_(image.permute(0, 2, 3, 1))
        return result

    @property
    def _delta_patch_floats(self) -> int:
        rows, columns = self.geometry.reverse
        return rows.count * columns.count * rows.taps * columns.taps * self.geometry.filters

    def floats(self, slots: int) -> int:
        geometry = self.geometry
        forward = geometry.pixels * (self.columns + geometry.filters) + self.columns * geometry.filters
        return forward if self._patches_too_large(slots) else forward + self._delta_patch_floats
