"""Pooling by the library's own kernels, which are fast on channels-last memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedveil.engine.fused.stages import Stage, aten
from fedveil.engine.fused.workspace import Shelf


class _Pool(Stage):
    """What both kinds share. Results of the first pass are kept, and later passes write into them."""

    def __init__(self, size: int, channels_last: bool) -> None:
        self.size = size
        self.channels_last = channels_last

    def planes(self, image: Tensor) -> Tensor:
        """`[K · B, C, H, W]`, without moving the memory of a channels-last image."""
        merged = image.flatten(end_dim=1)
        return merged.permute(0, 3, 1, 2) if self.channels_last else merged

    def image(self, planes: Tensor, shelf: Shelf) -> Tensor:
        merged = planes.permute(0, 2, 3, 1) if self.channels_last else planes
        return torch.unflatten(merged, 0, (shelf.clients, shelf.slots))

    def floats(self, slots: int) -> int:
        return 3 * self.size


class MaxPool(_Pool):
    """The largest value of each window; its place is remembered for the way back."""

    def __init__(self, module: nn.MaxPool2d, size: int, channels_last: bool) -> None:
        super().__init__(size, channels_last)
        shape = (module.kernel_size, module.stride, module.padding, module.dilation)
        self.arguments = (*map(pair, shape), module.ceil_mode)

    def forward(self, inputs: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        kept, planes = shelf.kept, self.planes(inputs)
        kept["planes"] = planes
        operation = aten.max_pool2d_with_indices
        if "outputs" in kept:
            operation.out(planes, *self.arguments, out=kept["outputs"], indices=kept["indices"])
        else:
            kept["outputs"], kept["indices"] = operation(planes, *self.arguments)
        return self.image(kept["outputs"], shelf)

    def backward(self, delta: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        kept, incoming = shelf.kept, self.planes(delta)
        operation = aten.max_pool2d_with_indices_backward
        operands = (incoming, kept["planes"], *self.arguments, kept["indices"])
        if "delta" in kept:
            operation.grad_input(*operands, grad_input=kept["delta"])
        else:
            kept["delta"] = operation(*operands)
        return self.image(kept["delta"], shelf)


class AveragePool(_Pool):
    """The mean of each window."""

    def __init__(self, module: nn.AvgPool2d, size: int, channels_last: bool) -> None:
        super().__init__(size, channels_last)
        shape = (module.kernel_size, module.stride, module.padding)
        rest = (module.ceil_mode, module.count_include_pad, module.divisor_override)
        self.arguments = (*map(pair, shape), *rest)

    def forward(self, inputs: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        kept, planes = shelf.kept, self.planes(inputs)
        kept["planes"] = planes
        if "outputs" in kept:
            aten.avg_pool2d.out(planes, *self.arguments, out=kept["outputs"])
        else:
            kept["outputs"] = aten.avg_pool2d(planes, *self.arguments)
        return self.image(kept["outputs"], shelf)

    def backward(self, delta: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        kept = shelf.kept
        operands = (self.planes(delta), kept["planes"], *self.arguments)
        if "delta" in kept:
            aten.avg_pool2d_backward.grad_input(*operands, grad_input=kept["delta"])
        else:
            kept["delta"] = aten.avg_pool2d_backward(*operands)
        return self.image(kept["delta"], shelf)


def pair(value: int | tuple[int, ...]) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)
