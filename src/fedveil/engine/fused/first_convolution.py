"""The convolution that sees the data, for many clients at once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fedveil.engine.fused.convolution import AnyConvolution
from fedveil.engine.fused.workspace import Shelf


class _Forward(NamedTuple):
    """Memory of the forward pass; `plane_copies` pairs parts of the patches with the shifted rows they hold."""

    inside: Tensor
    column_windows: Tensor
    shifted: Tensor
    plane_copies: list[tuple[Tensor, Tensor]]
    patches: Tensor
    matrix: Tensor
    matrix_weights: Tensor
    matrices: Tensor
    outputs: Tensor
    image: Tensor


class FirstConvolution(AnyConvolution):
    """A convolution of the data themselves: images `[K, B, C, H, W]`, and no gradient by the input.

    With few channels, stretches of memory are longer along the image's rows, so patches are stored
    transposed, `[K, B, columns, pixels]`. The weights keep their own order, and outputs still come out
    channels last.
    """

    def forward(self, inputs: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        memory = shelf.once("forward", self._prepare_forward)
        memory.inside.copy_(inputs)
        memory.shifted.copy_(memory.column_windows)
        for planes, rows in memory.plane_copies:
            planes.copy_(rows)
        memory.matrix_weights.copy_(parameters[:, None, self.weight].view_as(memory.matrix_weights[:, :1]))
        if self.bias is not None:
            memory.matrix[..., -1].copy_(parameters[:, None, self.bias])
        torch.bmm(memory.patches.mT, memory.matrices, out=memory.outputs)
        return memory.image

    def _prepare_forward(self, shelf: Shelf) -> _Forward:
        geometry, slots, down = self.geometry, shelf.slots, self.geometry.stride[0]
        height, width = geometry.padded
        rows = -(-height // down)
        padded = shelf.buffer("padded", slots, geometry.channels, rows * down, width, fill=0.0)
        shifted = shelf.buffer("shifted", slots, geometry.channels, geometry.kernel[1], down, rows, geometry.output[1])
        patches = shelf.buffer("patches", slots, self.columns, geometry.pixels, fill=1.0)
        matrix = shelf.buffer("matrix", slots, geometry.filters, self.columns)
        outputs = shelf.buffer("outputs", slots, geometry.pixels, geometry.filters)
        return _Forward(
            inside=geometry.inside(padded, 3),
            column_windows=self._column_windows(padded, shifted),
            shifted=shifted,
            plane_copies=self._plane_copies(shifted, patches),
            patches=patches.flatten(end_dim=1),
            matrix=matrix,
            matrix_weights=matrix[..., : geometry.taps],
            matrices=matrix.flatten(end_dim=1).mT,
            outputs=outputs.flatten(end_dim=1),
            image=outputs.view(-1, slots, *geometry.output, geometry.filters),
        )

    def _column_windows(self, padded: Tensor, shifted: Tensor) -> Tensor:
        """Each image shifted by each column of the kernel, the rows sorted by their phase in the stride."""
        by_client, by_slot, by_channel, by_row, by_column = padded.stride()
        down, right = self.geometry.stride
        return padded.as_strided(
            shifted.shape,
            (by_client, by_slot, by_channel, by_column, by_row, down * by_row, right * by_column),
        )

    def _plane_copies(self, shifted: Tensor, patches: Tensor) -> list[tuple[Tensor, Tensor]]:
        """With the rows sorted, what a weight meets is one stretch of memory: a whole plane of pixels."""
        geometry, down = self.geometry, self.geometry.stride[0]
        by_client, by_slot, by_channel, by_column, by_phase, by_row, _ = shifted.stride()
        leading = (*patches.shape[:2], geometry.channels)
        planes = patches[:, :, : geometry.taps].view(*leading, *geometry.kernel, geometry.pixels)
        copies = []
        for phase in range(min(down, geometry.kernel[0])):
            target = planes[:, :, :, phase::down]
            source = shifted.as_strided(
                target.shape, (by_client, by_slot, by_channel, by_row, by_column, 1), phase * by_phase
            )
            copies.append((target, source))
        return copies

    def backward(self, delta: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        raise AssertionError("nothing before the first layer has parameters")

    def gradients(self, delta: Tensor, shelf: Shelf) -> Tensor:
        geometry = self.geometry
        gradients = self.gradient_buffer(shelf)
        torch.bmm(
            shelf.once("forward", self._prepare_forward).patches,
            delta.reshape(-1, geometry.pixels, geometry.filters),
            out=gradients.view(-1, self.columns, geometry.filters),
        )
        return gradients

    def accumulate(self, delta: Tensor, total: Tensor, shelf: Shelf) -> None:
        self.gradients(delta, shelf)
        self.collect(shelf.buffer("ones", shelf.slots, fill=1.0), total, shelf)

    def write(self, gradient: Tensor, flat: Tensor) -> None:
        geometry = self.geometry
        shaped = torch.unflatten(gradient, -1, (self.columns, geometry.filters))
        self.shaped_weight(flat).flatten(start_dim=-2).copy_(shaped[..., : geometry.taps, :].mT)
        if self.bias is not None:
            flat[..., self.bias].copy_(shaped[..., geometry.taps, :])

    def floats(self, slots: int) -> int:
        geometry = self.geometry
        shifted = geometry.channels * geometry.kernel[1] * geometry.padded[0] * geometry.output[1]
        return shifted + geometry.pixels * (self.columns + geometry.filters) + self.columns * geometry.filters
