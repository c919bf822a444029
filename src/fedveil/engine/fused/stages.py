"""What a stage of the network is, and the stages that have no parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fedveil.engine.fused.workspace import Shelf
from fedveil.models.networks import Rescale

aten: Any = torch.ops.aten


class Stage(ABC):
    """One step of the forward pass and its reverse. Images are `[K, B, H, W, C]`, features `[K, B, F]`."""

    @abstractmethod
    def forward(self, inputs: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        """The outputs, and on the shelf whatever the way back needs."""

    @abstractmethod
    def backward(self, delta: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        """From `delta`, the loss's derivative by the outputs (may be overwritten), that by the inputs."""

    @abstractmethod
    def floats(self, slots: int) -> int:
        """How many numbers the stage touches for one of so many examples, to size the chunks of clients."""


class Layer(Stage):
    """A stage with parameters: one group of the layout."""

    group: int

    @abstractmethod
    def measure(self, delta: Tensor, shelf: Shelf) -> Tensor:
        """The norms `[K, B]` of each example's gradient; keeps what `collect` and `rows` need."""

    @abstractmethod
    def collect(self, factors: Tensor, total: Tensor, shelf: Shelf) -> None:
        """Write this layer's part of `total` `[K, P]`: the sum over B of `factors` `[K, B]` × gradient."""

    @abstractmethod
    def accumulate(self, delta: Tensor, total: Tensor, shelf: Shelf) -> Tensor | None:
        """Write this layer's part of `total` with the plain sum of the gradients, the cheapest way.

        Returns the norms `[K, B]` of each example's gradient, where these are cheaper than to look at the sum again.
        """

    @abstractmethod
    def rows(self, rows: Tensor, shelf: Shelf) -> None:
        """Write this layer's part of `rows` `[K, B, P]`, the gradients that `measure` has seen."""


@dataclass(frozen=True)
class Rule:
    """An element-wise function: `apply(inputs, out)` and `reverse(delta, kept, out)`.

    `kept` is the output, or the input where `keeps_input`. `rounds` marks functions whose vectorised and
    scalar code may differ in the last bit.
    """

    apply: Callable[[Tensor, Tensor], object]
    reverse: Callable[[Tensor, Tensor, Tensor], object]
    rounds: bool = True
    keeps_input: bool = False


RELU = Rule(
    apply=lambda inputs, out: torch.clamp_min(inputs, 0.0, out=out),
    reverse=lambda delta, kept, out: aten.threshold_backward.grad_input(delta, kept, 0.0, grad_input=out),
    rounds=False,
)
SIGMOID = Rule(
    apply=lambda inputs, out: torch.sigmoid(inputs, out=out),
    reverse=lambda delta, kept, out: aten.sigmoid_backward.grad_input(delta, kept, grad_input=out),
)
TANH = Rule(
    apply=lambda inputs, out: torch.tanh(inputs, out=out),
    reverse=lambda delta, kept, out: aten.tanh_backward.grad_input(delta, kept, grad_input=out),
)


def elu(module: nn.ELU) -> Rule:
    alpha = float(module.alpha)
    return Rule(
        apply=lambda inputs, out: aten.elu.out(inputs, alpha, out=out),
        reverse=lambda delta, kept, out: aten.elu_backward.grad_input(
            delta, alpha, 1.0, 1.0, False, kept, grad_input=out
        ),
        keeps_input=True,
    )


def gelu(module: nn.GELU) -> Rule | None:
    """Only the approximation by tanh: the exact form ignores the strides of the memory it is told to fill."""
    if module.approximate != "tanh":
        return None
    return Rule(
        apply=lambda inputs, out: aten.gelu.out(inputs, approximate="tanh", out=out),
        reverse=lambda delta, kept, out: aten.gelu_backward.grad_input(delta, kept, approximate="tanh", grad_input=out),
        keeps_input=True,
    )


def rescale(module: Rescale) -> Rule:
    shift, scale = float(module.shift), float(module.scale)
    return Rule(
        apply=lambda inputs, out: torch.sub(inputs, shift, out=out).mul_(scale),
        reverse=lambda delta, kept, out: torch.mul(delta, scale, out=out),
    )


class Activation(Stage):
    """An element-wise function; in place where the stage before has no use for its own output."""

    def __init__(self, rule: Rule, size: int, in_place: bool) -> None:
        self.rule = rule
        self.size = size
        self.in_place = in_place and not rule.rounds and not rule.keeps_input

    def forward(self, inputs: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        flat = inputs.reshape(shelf.clients, -1)
        outputs = flat if self.in_place else shelf.apart("outputs", flat.shape[1])
        self.rule.apply(flat, outputs)
        shelf.kept["operand"] = flat if self.rule.keeps_input else outputs
        return outputs.view(inputs.shape)

    def backward(self, delta: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        flat = delta.reshape(shelf.clients, -1)
        result = shelf.apart("delta", flat.shape[1]) if self.rule.keeps_input else flat
        self.rule.reverse(flat, shelf.kept["operand"], result)
        return result.view(delta.shape)

    def floats(self, slots: int) -> int:
        return self.size


class Flatten(Stage):
    """Images to features, in the order (channel, row, column) that a dense layer's weights assume."""

    def __init__(self, size: int, channels_last: bool) -> None:
        self.size = size
        self.channels_last = channels_last

    def forward(self, inputs: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        if not self.channels_last:
            return inputs.flatten(start_dim=2)
        pixels, channels = inputs.shape[2] * inputs.shape[3], inputs.shape[4]
        features = shelf.buffer("features", shelf.slots, channels, pixels)
        features.copy_(inputs.view(shelf.clients, shelf.slots, pixels, channels).mT)
        shelf.kept["image"] = inputs
        return features.flatten(start_dim=2)

    def backward(self, delta: Tensor, parameters: Tensor, shelf: Shelf) -> Tensor:
        image = shelf.kept["image"]
        pixels, channels = image.shape[2] * image.shape[3], image.shape[4]
        result = shelf.buffer("delta", shelf.slots, pixels, channels)
        result.copy_(delta.view(shelf.clients, shelf.slots, channels, pixels).mT)
        return result.view(image.shape)

    def floats(self, slots: int) -> int:
        return 2 * self.size
