"""The stages without parameters by the kernels in C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor, nn

from fedveil.engine.fused.pools import pair
from fedveil.engine.fused.stages import Stage
from fedveil.engine.fused.workspace import Shelf
from fedveil.native.small_layers import ConvolutionShape


class DirectRelu(Stage):
    """Zero for what is not positive, and on the way back where the output is zero."""

    def __init__(self, size: int, lanes: int) -> None:
        self.size, self.lanes = size, lanes

    def forward(self, inputs: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        outputs = shelf.buffer("outputs", *inputs.shape[1:])
        inputs = inputs.contiguous()
        self._shape(shelf).bend(inputs, inputs, outputs, self.lanes)
        return outputs

    def backward(self, delta: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        delta = delta.contiguous()
        self._shape(shelf).bend(delta, shelf.buffer("outputs"), delta, self.lanes)
        return delta

    def _shape(self, shelf: Shelf) -> ConvolutionShape:
        return shelf.once("shape", lambda shelf: ConvolutionShape.numbers((shelf.clients, shelf.slots), self.size))

    def floats(self, slots: int) -> int:
        return self.size


class DirectFlatten(Stage):
    """Channels-last images to features, in the order (channel, row, column) that a dense layer's weights assume."""

    def __init__(self, shape: tuple[int, ...], lanes: int) -> None:
        self.channels, *sizes = shape
        self.sizes, self.lanes = _two(sizes), lanes

    def forward(self, inputs: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        features = shelf.buffer("features", shelf.slots, self.channels * self.sizes[0] * self.sizes[1])
        self._shape(shelf).turn(inputs.contiguous(), features, self.lanes)
        return features

    def backward(self, delta: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        image = shelf.buffer("delta", shelf.slots, *self.sizes, self.channels)
        back = shelf.once("back", lambda shelf: replace(self._shape(shelf), planar=True))
        back.turn(delta.contiguous(), image, self.lanes)
        return image

    def _shape(self, shelf: Shelf) -> ConvolutionShape:
        def make(shelf: Shelf) -> ConvolutionShape:
            return ConvolutionShape.images((shelf.clients, shelf.slots), self.channels, self.sizes)

        return shelf.once("shape", make)

    def floats(self, slots: int) -> int:
        return 2 * self.channels * self.sizes[0] * self.sizes[1]


class DirectMaxPool(Stage):
    """A max pool of channels-last images, in C: windows inside the image, as they usually are."""

    def __init__(self, module: nn.MaxPool2d, shape: tuple[int, ...], lanes: int) -> None:
        self.channels, *sizes = shape
        self.sizes, self.lanes = _two(sizes), lanes
        self.kernel, self.stride = _two(pair(module.kernel_size)), _two(pair(module.stride))

    @staticmethod
    def takes(module: nn.MaxPool2d) -> bool:
        return pair(module.padding) == [0, 0] and pair(module.dilation) == [1, 1] and not module.ceil_mode

    def forward(self, inputs: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        shape = self._shape(shelf)
        outputs = shelf.buffer("outputs", shelf.slots, shape.out_height, shape.out_width, self.channels)
        winners = shelf.buffer("winners", *outputs.shape[1:])
        shape.pool(inputs.contiguous(), outputs, winners, self.lanes)
        shelf.kept["winners"] = winners
        return outputs

    def backward(self, delta: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        result = shelf.buffer("delta", shelf.slots, *self.sizes, self.channels)
        shape, outputs = self._shape(shelf), shelf.buffer("outputs")
        shape.unpool(result, outputs, shelf.kept["winners"], delta.contiguous(), self.lanes)
        return result

    def _shape(self, shelf: Shelf) -> ConvolutionShape:
        def make(shelf: Shelf) -> ConvolutionShape:
            examples = (shelf.clients, shelf.slots)
            return ConvolutionShape.max_pool(examples, self.channels, self.sizes, self.kernel, self.stride)

        return shelf.once("shape", make)

    def floats(self, slots: int) -> int:
        return 2 * self.channels * self.sizes[0] * self.sizes[1]


def _two(values: Sequence[int]) -> tuple[int, int]:
    first, second = values
    return first, second
