"""A dense layer for many clients at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedveil.core.norms import lengths
from fedveil.engine.fused.stages import Layer
from fedveil.engine.fused.workspace import Shelf, not_prepared
from fedveil.native.small_layers import ConvolutionShape

VANISHING = 1e-15
"""Below this, squares come near the smallest single-precision numbers."""


MOST_EXAMPLES = 256
"""Of more of them the inputs no longer stay near while the kernels in C walk through all outputs."""


class Dense(Layer):
    """y = W x + b. A weight gradient is an outer product, so its norm needs only the two factors.

    With `lanes` small batches are computed in C, where an example is an image of one pixel.
    """

    def __init__(
        self, group: int, inputs: int, outputs: int, weight: slice, bias: slice | None, lanes: int = 0
    ) -> None:
        self.lanes = lanes
        self.group = group
        self.inputs = inputs
        self.outputs = outputs
        self.weight = weight
        self.bias = bias

    def _matrix(self, flat: Tensor) -> Tensor:
        """The view `[K, outputs, inputs]` of the weights in `flat` `[K, P]`."""
        return flat[:, self.weight].view(-1, self.outputs, self.inputs)

    def forward(self, inputs: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        outputs = shelf.buffer("outputs", shelf.slots, self.outputs)
        if self._direct(shelf):
            inputs = inputs.contiguous()
            shelf.kept["inputs"] = inputs
            self._shape(shelf, parameters).dense(parameters, inputs, outputs, self.lanes)
            return outputs
        shelf.kept["inputs"] = inputs
        matrix = self._matrix(parameters).mT
        if self.bias is None:
            return torch.bmm(inputs, matrix, out=outputs)
        return torch.baddbmm(parameters[:, None, self.bias], inputs, matrix, out=outputs)

    def backward(self, delta: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        result = shelf.buffer("delta", shelf.slots, self.inputs)
        if self._direct(shelf):
            shape = self._shape(shelf, parameters)
            shape.dense_back(parameters, delta.contiguous(), result, self.lanes)
            return result
        return torch.bmm(delta, self._matrix(parameters), out=result)

    def measure(self, delta: Tensor, shelf: Shelf) -> Tensor:
        shelf.kept["delta"] = delta
        inputs = shelf.kept["inputs"]
        if self._direct(shelf):
            norms = shelf.buffer("norms", shelf.slots)
            shelf.kept["delta"] = delta = delta.contiguous()
            shape: ConvolutionShape = shelf.once("shape", not_prepared)
            shape.dense_norms(inputs, delta, norms, self.lanes)
            return norms
        sizes, errors = lengths(inputs), lengths(delta)
        if bool((torch.minimum(sizes, errors) < VANISHING).any()):
            sizes, errors = _bound(inputs, sizes), _bound(delta, errors)
        if self.bias is not None:
            sizes = sizes.square_().add_(1.0).sqrt_()
        return torch.mul(sizes, errors)

    def collect(self, factors: Tensor, total: Tensor, shelf: Shelf) -> None:
        delta = shelf.kept["delta"]
        if self._direct(shelf):
            self._shape(shelf, total).outer(shelf.kept["inputs"], delta, total, self.lanes, factors.contiguous())
            return
        scaled = shelf.buffer("scaled", shelf.slots, self.outputs)
        self._sum(torch.mul(delta, factors.unsqueeze(-1), out=scaled), total, shelf)

    def accumulate(self, delta: Tensor, total: Tensor, shelf: Shelf) -> Tensor | None:
        if self._direct(shelf):
            delta = delta.contiguous()
            self._shape(shelf, total).outer(shelf.kept["inputs"], delta, total, self.lanes)
            return self.measure(delta, shelf)
        self._sum(delta, total, shelf)
        return None

    def _sum(self, delta: Tensor, total: Tensor, shelf: Shelf) -> None:
        torch.bmm(delta.mT, shelf.kept["inputs"], out=self._matrix(total))
        if self.bias is not None:
            total[:, self.bias].copy_(delta.sum(dim=1))

    def _direct(self, shelf: Shelf) -> bool:
        return bool(self.lanes) and shelf.slots <= MOST_EXAMPLES

    def _shape(self, shelf: Shelf, parameters: Tensor) -> ConvolutionShape:
        return shelf.once(
            "shape",
            lambda shelf: ConvolutionShape.dense_layer(
                (shelf.clients, shelf.slots),
                parameters.shape[1],
                self.weight.start,
                -1 if self.bias is None else self.bias.start,
                (self.inputs, self.outputs),
            ),
        )

    def rows(self, rows: Tensor, shelf: Shelf) -> None:
        delta, inputs = shelf.kept["delta"], shelf.kept["inputs"]
        outer = delta.unsqueeze(-1) * inputs.unsqueeze(-2)
        rows[:, :, self.weight] = outer.flatten(start_dim=2)
        if self.bias is not None:
            rows[:, :, self.bias] = delta

    def floats(self, slots: int) -> int:
        return 2 * (self.inputs + self.outputs)


def _bound(rows: Tensor, length: Tensor) -> Tensor:
    """L2 norms along the last axis; bounded from above where the squares of tiny numbers would vanish.

    Times an enormous input, a delta of 1e-20 is a gradient like any other, and must not pass for zero; nor must a tiny
    input times an enormous delta.
    """
    largest = torch.linalg.vector_norm(rows, ord=torch.inf, dim=-1)
    return torch.where(length < VANISHING, largest * math.sqrt(rows.shape[-1]), length)
