"""Convolutions for many clients at once, as matrix products over image patches.

The bias rides along as one more weight whose patch entry is always one.
"""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor
from torch.nn.functional import conv_transpose2d

from fedveil.engine.fused.geometry import Geometry, windows
from fedveil.engine.fused.stages import Layer
from fedveil.engine.fused.workspace import Shelf

_LANES = 16
_LARGE_PATCH = 1200
"""Numbers in a patch of `delta` (measured: 5 × 5 × 32 and 3 × 3 × 64 are still faster as patches)."""


class _Convolution(Layer):
    """What both forms share: per-example gradients, measured and then summed with their factors."""

    def __init__(self, group: int, geometry: Geometry, weight: slice, bias: slice | None) -> None:
        self.group = group
        self.geometry = geometry
        self.weight = weight
        self.bias = bias
        self.columns = geometry.taps + (bias is not None)

    def measure(self, delta: Tensor, shelf: Shelf) -> Tensor:
        gradients = self._gradients(delta, shelf)
        shelf.kept["gradients"] = gradients
        norms: Tensor = torch.linalg.vector_norm(gradients, dim=-1)
        return norms

    def collect(self, factors: Tensor, total: Tensor, shelf: Shelf) -> None:
        gradients = shelf.kept["gradients"]
        summed = shelf.buffer("summed", 1, gradients.shape[-1])
        torch.bmm(factors.unsqueeze(1), gradients, out=summed)
        self._write(summed.squeeze(1), total)

    def rows(self, rows: Tensor, shelf: Shelf) -> None:
        self._write(shelf.kept["gradients"], rows)

    def _gradients(self, delta: Tensor, shelf: Shelf) -> Tensor:
        """Every example's gradient `[K, B, filters · columns]`, in this form's own order."""
        raise NotImplementedError

    def _write(self, gradient: Tensor, flat: Tensor) -> None:
        """Put gradients `[..., filters · columns]`, in this form's order, into their place in `[..., P]`."""
        raise NotImplementedError

    def _shaped_weight(self, flat: Tensor) -> Tensor:
        """The view `[..., filters, channels, area]` of the weights in `flat` `[..., P]`."""
        geometry = self.geometry
        return torch.unflatten(flat[..., self.weight], -1, (geometry.filters, geometry.channels, geometry.area))


class FirstConvolution(_Convolution):
    """A convolution of the data themselves: images `[K, B, C, H, W]`, and no gradient by the input.

    With few channels, stretches of memory are longer along the image's rows, so patches are stored
    transposed, `[K, B, columns, pixels]`. The weights keep their own order, and outputs still come out
    channels last.
    """

    def forward(self, inputs: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        geometry = self.geometry
        patches = self._fill_patches(inputs, shelf)
        matrix = shelf.buffer("matrix", shelf.slots, geometry.filters, self.columns)
        matrix[..., : geometry.taps].copy_(self._shaped_weight(parameters).flatten(start_dim=2).unsqueeze(1))
        if self.bias is not None:
            matrix[..., geometry.taps].copy_(parameters[:, None, self.bias])
        outputs = shelf.buffer("outputs", shelf.slots, geometry.pixels, geometry.filters)
        torch.bmm(patches.flatten(end_dim=1).mT, matrix.flatten(end_dim=1).mT, out=outputs.flatten(end_dim=1))
        return outputs.view(shelf.clients, shelf.slots, *geometry.output, geometry.filters)

    def _fill_patches(self, inputs: Tensor, shelf: Shelf) -> Tensor:
        """Shift along the columns first; the shifts along the rows are then copies of whole planes."""
        geometry, (down, _) = self.geometry, self.geometry.stride
        pixels = geometry.pixels
        shifted = self._column_shifts(self._padded(inputs, shelf), shelf)
        patches = shelf.buffer("patches", shelf.slots, self.columns, pixels, fill=1.0)
        target = patches[:, :, : geometry.taps].view(
            shelf.clients, shelf.slots, geometry.channels, *geometry.kernel, pixels
        )
        for phase in range(min(down, geometry.kernel[0])):
            rows = range(phase, geometry.kernel[0], down)
            by_client, by_slot, by_channel, by_column, by_phase, by_row, _ = shifted.stride()
            source = shifted.as_strided(
                (shelf.clients, shelf.slots, geometry.channels, len(rows), geometry.kernel[1], pixels),
                (by_client, by_slot, by_channel, by_row, by_column, 1),
                phase * by_phase,
            )
            target[:, :, :, phase::down].copy_(source)
        return patches

    def _column_shifts(self, image: Tensor, shelf: Shelf) -> Tensor:
        """`[K, B, C, kernel column, phase, row, output column]`: padded row `down · row + phase`, shifted."""
        geometry, (down, right), width = self.geometry, self.geometry.stride, self.geometry.output[1]
        by_client, by_slot, by_channel, by_row, by_column = image.stride()
        rows = image.shape[3] // down
        shifted = shelf.buffer("shifted", shelf.slots, geometry.channels, geometry.kernel[1], down, rows, width)
        view = image.as_strided(
            shifted.shape,
            (by_client, by_slot, by_channel, by_column, by_row, down * by_row, right * by_column),
            image.storage_offset(),
        )
        return shifted.copy_(view)

    def _padded(self, inputs: Tensor, shelf: Shelf) -> Tensor:
        """The images with their border, the number of rows rounded up to a multiple of the stride."""
        geometry, down = self.geometry, self.geometry.stride[0]
        height, width = geometry.padded
        rows = -(-height // down) * down
        padded = shelf.buffer("padded", shelf.slots, geometry.channels, rows, width, fill=0.0)
        geometry.inside(padded, 3).copy_(inputs)
        return padded

    def backward(self, delta: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        raise AssertionError("nothing before the first layer has parameters")

    def _gradients(self, delta: Tensor, shelf: Shelf) -> Tensor:
        geometry = self.geometry
        patches = shelf.buffer("patches", shelf.slots, self.columns, geometry.pixels)
        gradients = shelf.buffer("gradients", shelf.slots, self.columns * geometry.filters)
        torch.bmm(
            patches.flatten(end_dim=1),
            delta.reshape(-1, geometry.pixels, geometry.filters),
            out=gradients.view(-1, self.columns, geometry.filters),
        )
        return gradients

    def accumulate(self, delta: Tensor, total: Tensor, shelf: Shelf) -> None:
        gradients = self._gradients(delta, shelf)
        ones = shelf.buffer("ones", 1, shelf.slots, fill=1.0)
        summed = shelf.buffer("summed", 1, gradients.shape[-1])
        self._write(torch.bmm(ones, gradients, out=summed).squeeze(1), total)

    def _write(self, gradient: Tensor, flat: Tensor) -> None:
        geometry = self.geometry
        shaped = torch.unflatten(gradient, -1, (self.columns, geometry.filters))
        self._shaped_weight(flat).flatten(start_dim=-2).copy_(shaped[..., : geometry.taps, :].mT)
        if self.bias is not None:
            flat[..., self.bias].copy_(shaped[..., geometry.taps, :])

    def floats(self) -> int:
        geometry = self.geometry
        return geometry.pixels * (self.columns + geometry.filters) + self.columns * geometry.filters


class Convolution(_Convolution):
    """A convolution of channels-last images `[K, B, H, W, C]`.

    Patches are `[K, B · pixels, columns]`, a filter's weights in the order (row, column, channel). The
    gradient by the input takes the sub-pixel form: one product with small patches of `delta`, no scattered
    additions.
    """

    def forward(self, inputs: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        geometry = self.geometry
        patches = self._patches(shelf)
        target = patches[..., : geometry.taps].view(
            shelf.clients, shelf.slots, *geometry.output, geometry.kernel[0], -1
        )
        image = self._padded(inputs, shelf)
        target.copy_(windows(image, geometry.kernel, geometry.stride, geometry.output))
        matrix = shelf.buffer("matrix", self.columns, geometry.filters)
        weights = matrix[:, : geometry.taps].view(-1, geometry.area, geometry.channels, geometry.filters)
        weights.copy_(self._shaped_weight(parameters).permute(0, 3, 2, 1))
        if self.bias is not None:
            matrix[:, geometry.taps].copy_(parameters[:, self.bias])
        outputs = shelf.buffer("outputs", shelf.slots * geometry.pixels, geometry.filters)
        torch.bmm(patches, matrix, out=outputs)
        return outputs.view(shelf.clients, shelf.slots, *geometry.output, geometry.filters)

    def _patches(self, shelf: Shelf) -> Tensor:
        pitch = -(-self.columns // _LANES) * _LANES
        rows = shelf.slots * self.geometry.pixels
        return shelf.buffer("patches", rows, pitch, fill=1.0)[..., : self.columns]

    def _padded(self, inputs: Tensor, shelf: Shelf) -> Tensor:
        if self.geometry.padding == (0, 0):
            return inputs if inputs[0].is_contiguous() else inputs.contiguous()
        padded = shelf.buffer("padded", shelf.slots, *self.geometry.padded, self.geometry.channels, fill=0.0)
        self.geometry.inside(padded, 2).copy_(inputs)
        return padded

    def _gradients(self, delta: Tensor, shelf: Shelf) -> Tensor:
        geometry = self.geometry
        gradients = shelf.buffer("gradients", shelf.slots, geometry.filters * self.columns)
        torch.bmm(
            delta.reshape(-1, geometry.pixels, geometry.filters).mT,
            self._patches(shelf).view(-1, geometry.pixels, self.columns),
            out=gradients.view(-1, geometry.filters, self.columns),
        )
        return gradients

    def accumulate(self, delta: Tensor, total: Tensor, shelf: Shelf) -> None:
        geometry = self.geometry
        summed = shelf.buffer("summed", 1, geometry.filters * self.columns)
        torch.bmm(
            delta.reshape(shelf.clients, -1, geometry.filters).mT,
            self._patches(shelf),
            out=summed.view(-1, geometry.filters, self.columns),
        )
        self._write(summed.squeeze(1), total)

    def _write(self, gradient: Tensor, flat: Tensor) -> None:
        geometry = self.geometry
        shaped = torch.unflatten(gradient, -1, (geometry.filters, self.columns))
        weights = torch.unflatten(shaped[..., : geometry.taps], -1, (geometry.area, geometry.channels))
        self._shaped_weight(flat).copy_(weights.mT)
        if self.bias is not None:
            flat[..., self.bias].copy_(shaped[..., geometry.taps])

    def backward(self, delta: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        if self._patches_too_large:
            return self._library_backward(delta, parameters, shelf)
        geometry, (rows, columns) = self.geometry, self.geometry.reverse
        clients, slots = shelf.clients, shelf.slots
        (down, right), taps = geometry.stride, rows.taps * columns.taps * geometry.filters
        places = (slots, rows.count, columns.count)
        patches = shelf.buffer("delta patches", *places, rows.taps, taps // rows.taps)
        image = self._padded_delta(delta, shelf)
        patches.copy_(windows(image, (rows.taps, columns.taps), (1, 1), places[1:]))
        phases = shelf.buffer("phases", *places, down, right * geometry.channels)
        torch.bmm(
            patches.view(clients, -1, taps),
            self._reversed_matrix(parameters, shelf).view(clients, taps, -1),
            out=phases.view(clients, slots * rows.count * columns.count, -1),
        )
        if geometry.stride != (1, 1):
            spread = shelf.buffer("spread", slots, rows.count, down, columns.count, right * geometry.channels)
            phases = spread.copy_(phases.transpose(3, 4))
        image = phases.view(clients, slots, rows.count * down, columns.count * right, geometry.channels)
        return image.narrow(2, rows.skip, geometry.size[0]).narrow(3, columns.skip, geometry.size[1])

    def _padded_delta(self, delta: Tensor, shelf: Shelf) -> Tensor:
        """`delta` with zeros around it, or cut, so that it holds just the outputs that inputs reach."""
        extents = (axis.extent for axis in self.geometry.reverse)
        padded = shelf.buffer("padded delta", shelf.slots, *extents, self.geometry.filters, fill=0.0)
        target, axes = padded, zip(self.geometry.reverse, self.geometry.output, strict=True)
        for dimension, (axis, size) in enumerate(axes, start=2):
            low, high = max(axis.first_output, 0), min(axis.first_output + axis.extent, size)
            delta = delta.narrow(dimension, low, high - low)
            target = target.narrow(dimension, low - axis.first_output, high - low)
        target.copy_(delta)
        return padded

    def _reversed_matrix(self, parameters: Tensor, shelf: Shelf) -> Tensor:
        """Weights as (tap row, tap column, filter) × (phase row, column, channel); taps run backwards."""
        geometry, (rows, columns) = self.geometry, self.geometry.reverse
        (down, right), channels = geometry.stride, geometry.channels
        weights = torch.unflatten(self._shaped_weight(parameters), -1, geometry.kernel).permute(0, 1, 3, 4, 2)
        result = shelf.buffer("reversed", rows.taps, columns.taps, geometry.filters, down, right, channels, fill=0.0)
        for row, column in product(range(rows.taps), range(columns.taps)):
            piece = weights[:, :, row * down : (row + 1) * down, column * right : (column + 1) * right]
            target = result[:, rows.taps - 1 - row, columns.taps - 1 - column]
            target[:, :, : piece.shape[2], : piece.shape[3]].copy_(piece)
        return result

    @property
    def _patches_too_large(self) -> bool:
        """Whether moving patches of `delta` costs more than the library's convolution, client by client."""
        return self.geometry.stride == (1, 1) and self.geometry.area * self.geometry.filters > _LARGE_PATCH

    def _library_backward(self, delta: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        geometry = self.geometry
        planes = shelf.buffer("delta planes", shelf.slots, geometry.filters, *geometry.output)
        planes.copy_(delta.permute(0, 1, 4, 2, 3))
        weights = torch.unflatten(self._shaped_weight(parameters), -1, geometry.kernel)
        result = shelf.buffer("spread", shelf.slots, *geometry.size, geometry.channels)
        for client in range(shelf.clients):
            image = conv_transpose2d(planes[client], weights[client], padding=geometry.padding)
            result[client].copy_(image.permute(0, 2, 3, 1))
        return result

    def floats(self) -> int:
        geometry, (rows, columns) = self.geometry, self.geometry.reverse
        forward = geometry.pixels * (self.columns + geometry.filters) + self.columns * geometry.filters
        if self._patches_too_large:
            return forward
        return forward + rows.count * columns.count * rows.taps * columns.taps * geometry.filters
