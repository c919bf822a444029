"""Convolutions by the kernels in C: straight from the image, and back only where a derivative is not zero."""

from __future__ import annotations

import torch
from torch import Tensor

from fedveil.engine.fused.geometry import Geometry
from fedveil.engine.fused.stages import Layer
from fedveil.engine.fused.workspace import Shelf, missing
from fedveil.native.small_layers import ConvolutionShape

SHORT_STRETCH = 16
"""Below so many numbers in a row of the kernel, all meet all in weight gradients, zeros too (measured)."""


class DirectConvolution(Layer):
    """A convolution, with the ReLU behind it if there is one. Outputs are channels last; inputs, too, unless `planar`.

    Of each filter only those pixels count whose derivative is not zero: half of them behind a ReLU, at most one in four
    behind a usual max pool. Zero times an infinite input would not be zero, so an example with an input that is not
    finite gets a norm that is not finite.
    """

    def __init__(
        self, group: int, geometry: Geometry, weight: slice, bias: slice | None, *, planar: bool, lanes: int
    ) -> None:
        self.group = group
        self.geometry = geometry
        self.weight = weight
        self.bias = bias
        self.planar = planar and geometry.channels > 1
        self.lanes = lanes
        self.relu = False

    def shape(self, clients: int, slots: int, size: int) -> ConvolutionShape:
        geometry = self.geometry
        return ConvolutionShape(
            clients,
            slots,
            size,
            self.weight.start,
            -1 if self.bias is None else self.bias.start,
            geometry.channels,
            geometry.filters,
            *geometry.size,
            *geometry.kernel,
            *geometry.stride,
            *geometry.padding,
            *geometry.output,
            planar=self.planar,
            brief=geometry.kernel[1] * geometry.channels < SHORT_STRETCH,
            relu=self.relu,
        )

    def forward(self, inputs: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        inputs = inputs.contiguous()
        shape = shelf.once("shape", lambda shelf: self.shape(shelf.clients, shelf.slots, parameters.shape[1]))
        outputs = shelf.buffer("outputs", shelf.slots, *self.geometry.output, self.geometry.filters)
        shelf.kept["inputs"] = inputs
        shape.convolve(parameters, inputs, outputs, self.lanes)
        return outputs

    def backward(self, delta: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        result = shelf.buffer("delta", shelf.slots, *self.geometry.size, self.geometry.channels)
        outputs = self._outputs(shelf)
        self._shape(shelf).reverse(parameters, outputs, delta.contiguous(), result, self.lanes)
        return result

    def measure(self, delta: Tensor, shelf: Shelf) -> Tensor:
        shape, norms = self._shape(shelf), shelf.buffer("norms", shelf.slots)
        gradients = shelf.buffer("gradients", shelf.slots, shape.gradient_size)
        shape.gradients(shelf.kept["inputs"], self._outputs(shelf), delta.contiguous(), norms, gradients, self.lanes)
        return norms

    def collect(self, factors: Tensor, total: Tensor, shelf: Shelf) -> None:
        shape = self._shape(shelf)
        gradients = shelf.buffer("gradients", shelf.slots, shape.gradient_size)
        shape.collect(gradients, factors.contiguous(), total, self.lanes)

    def accumulate(self, delta: Tensor, total: Tensor, shelf: Shelf) -> None:
        self._shape(shelf).summed(shelf.kept["inputs"], self._outputs(shelf), delta.contiguous(), total, self.lanes)

    def rows(self, rows: Tensor, shelf: Shelf) -> None:
        """As sums of one gradient each."""
        alone = self.shape(shelf.clients * shelf.slots, 1, rows.shape[-1])
        gradients = shelf.buffer("gradients", shelf.slots, alone.gradient_size)
        alone.collect(gradients, torch.ones(shelf.clients * shelf.slots), rows, self.lanes)

    def _shape(self, shelf: Shelf) -> ConvolutionShape:
        """That of the forward pass."""
        shape: ConvolutionShape = shelf.once("shape", missing)
        return shape

    def _outputs(self, shelf: Shelf) -> Tensor:
        return shelf.buffer("outputs", shelf.slots, *self.geometry.output, self.geometry.filters)

    def floats(self, slots: int) -> int:
        geometry = self.geometry
        image = geometry.channels * geometry.size[0] * geometry.size[1]
        gradient = geometry.filters * (geometry.taps + (self.bias is not None))
        return image + geometry.pixels * geometry.filters + gradient
