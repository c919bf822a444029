"""What each layer does in one evaluation of an attack, written out: four passes over the same pictures.

An attack wants two things of dummy data x: the gradient g(x) = ∂L/∂θ, and for some r the slope ∂⟨r, g(x)⟩/∂x. The slope
is the tangent of ∂L/∂x when the parameters move along r: d/dε ∂L(x, θ + εr)/∂x. So values go `forward` and errors
`backward`, which gives the gradient; then tangents are `pushed` forward and `pulled` backward along the same layers,
and no autograd is needed. Every attack has its own r, so half the products are batched matrix products.

Pictures are channels-last `[N, rows, columns, channels]`. The N examples fall into `groups` with a gradient, and
perhaps parameters, of their own. A pass belongs to one evaluation and remembers what later passes need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from fedveil.attacks.inversion.windows import Kernel, convolved, patches
from fedveil.models.networks import Rescale

Named = dict[str, Tensor]
"""A layer's `weight` and `bias`, or what belongs to them: a gradient, a direction."""

SLOPES: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.Sigmoid: lambda output: output * (1 - output),
    nn.Tanh: lambda output: 1 - output.square(),
    nn.ReLU: lambda output: (output > 0).to(output.dtype),
}
"""The slope of an activation as a function of its output."""

BENDS: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.Sigmoid: lambda output: 1 - 2 * output,
    nn.Tanh: lambda output: -2 * output,
    nn.ReLU: torch.zeros_like,
}
"""How that slope changes with the output."""


class Pass(Protocol):
    def forward(self, value: Tensor) -> Tensor: ...

    def backward(self, error: Tensor, onward: bool) -> Tensor:
        """The error at the layer's input from the one at its output (`onward=False`: nobody wants it)."""

    def push(self, tangent: Tensor | None, direction: Named) -> Tensor | None:
        """The output's tangent, from the input's (None: zero) and the direction of the layer's parameters."""

    def pull(self, tangent: Tensor) -> Tensor:
        """The tangent of the error at the input from that of the error at the output."""


class DensePass:
    """Has parameters, as `ConvolutionPass` has: `gradient` is known after `backward`, its tangent after `pull`."""

    def __init__(self, parameters: Named, groups: int) -> None:
        self._weight, self._bias, self._groups = parameters["weight"], parameters.get("bias"), groups
        self._tangent: Tensor | None = None

    def forward(self, value: Tensor) -> Tensor:
        self._value = value.reshape(self._groups, -1, value.shape[-1])
        return _flat(_times(self._value, self._weight.mT, self._bias))

    def backward(self, error: Tensor, onward: bool) -> Tensor:
        self._error = error.reshape(self._groups, -1, error.shape[-1])
        return _flat(_times(self._error, self._weight)) if onward else error

    def gradient(self) -> Named:
        return {"weight": self._error.mT @ self._value, "bias": self._error.sum(dim=1)}

    def push(self, tangent: Tensor | None, direction: Named) -> Tensor:
        self._direction = direction["weight"]
        pushed = _times(self._value, self._direction.mT, direction.get("bias"))
        if tangent is not None:
            self._tangent = tangent.reshape(self._value.shape)
            pushed += _times(self._tangent, self._weight.mT)
        return _flat(pushed)

    def pull(self, tangent: Tensor) -> Tensor:
        self._turning = tangent.reshape(self._error.shape)
        return _flat(_times(self._turning, self._weight) + torch.bmm(self._error, self._direction))

    def gradient_tangent(self) -> Named:
        weight = self._turning.mT @ self._value
        if self._tangent is not None:
            weight += self._error.mT @ self._tangent
        return {"weight": weight, "bias": self._turning.sum(dim=1)}


class ConvolutionPass:
    """As products of patches: of the picture with the kernel, and of the errors with the turned kernel."""

    def __init__(self, layer: nn.Conv2d, parameters: Named, groups: int, picture: torch.Size) -> None:
        self._kernel = Kernel.of(layer, picture)
        self._raw, self._bias, self._groups = parameters["weight"], parameters.get("bias"), groups
        self._weight = self._kernel.forward(self._raw)
        self._shared = self._raw.ndim == 4
        self._tangents: Tensor | None = None

    def forward(self, value: Tensor) -> Tensor:
        self._patches = self._grouped(self._kernel.patches(value))
        return self._picture(_times(self._patches, self._weight, self._bias))

    def backward(self, error: Tensor, onward: bool) -> Tensor:
        self._error = error.reshape(self._groups, -1, error.shape[-1])
        self._spread = self._grouped(patches(self._kernel.padded(error), self._kernel.reach))
        self._turned = self._kernel.turned(self._weight)
        return self._kernel.gathered(_times(self._spread, self._turned)) if onward else error

    def gradient(self) -> Named:
        weight = torch.bmm(self._error.mT, self._patches)
        return {"weight": self._kernel.weight(weight), "bias": self._error.sum(dim=1)}

    def push(self, tangent: Tensor | None, direction: Named) -> Tensor:
        self._direction = self._kernel.forward(direction["weight"])
        pushed = _times(self._patches, self._direction, direction.get("bias"))
        if tangent is None:
            return self._picture(pushed)
        if self._shared:  # these patches would serve once: a convolution does without
            found = convolved(tangent, self._raw, self._kernel.stride, self._kernel.padding)
            return self._picture(pushed).add_(found)
        self._tangents = self._grouped(self._kernel.patches(tangent))
        return self._picture(pushed.baddbmm_(self._tangents, self._weight))

    def pull(self, tangent: Tensor) -> Tensor:
        self._turning = tangent.reshape(self._error.shape)
        pulled = torch.bmm(self._spread, self._kernel.turned(self._direction))
        padded = self._kernel.padded(tangent)
        if self._shared:
            pulled += convolved(padded, self._kernel.as_kernel(self._turned)).reshape(pulled.shape)
        else:
            pulled.baddbmm_(self._grouped(patches(padded, self._kernel.reach)), self._turned)
        return self._kernel.gathered(pulled)

    def gradient_tangent(self) -> Named:
        weight = torch.bmm(self._turning.mT, self._patches)
        if self._tangents is not None:
            weight.baddbmm_(self._error.mT, self._tangents)
        return {"weight": self._kernel.weight(weight), "bias": self._turning.sum(dim=1)}

    def _grouped(self, rows: Tensor) -> Tensor:
        return rows.view(self._groups, -1, rows.shape[-1])

    def _picture(self, rows: Tensor) -> Tensor:
        return rows.view(-1, *self._kernel.places, rows.shape[-1])


Affine = DensePass | ConvolutionPass


class ActivationPass:
    def __init__(self, layer: nn.Module) -> None:
        self._layer, self._kind = layer, type(layer)
        self._tangent: Tensor | None = None

    def forward(self, value: Tensor) -> Tensor:
        output: Tensor = self._layer(value)
        self._output, self._slope = output, SLOPES[self._kind](output)
        return output

    def backward(self, error: Tensor, onward: bool) -> Tensor:
        self._error = error
        return error * self._slope

    def push(self, tangent: Tensor | None, direction: Named) -> Tensor | None:
        self._tangent = None if tangent is None else tangent * self._slope
        return self._tangent

    def pull(self, tangent: Tensor) -> Tensor:
        pulled = tangent * self._slope
        if self._tangent is None:
            return pulled
        return pulled.addcmul_(BENDS[self._kind](self._output).mul_(self._error), self._tangent)


class ScalingPass:
    def __init__(self, layer: Rescale) -> None:
        self._layer = layer

    def forward(self, value: Tensor) -> Tensor:
        scaled: Tensor = self._layer(value)
        return scaled

    def backward(self, error: Tensor, onward: bool) -> Tensor:
        return error * self._layer.scale

    def push(self, tangent: Tensor | None, direction: Named) -> Tensor | None:
        return None if tangent is None else tangent * self._layer.scale

    def pull(self, tangent: Tensor) -> Tensor:
        return tangent * self._layer.scale


class FlatteningPass:
    """Rows of features, in the order of channels-first pictures."""

    def forward(self, value: Tensor) -> Tensor:
        self._shape = value.shape
        return value.permute(0, 3, 1, 2).flatten(1) if value.ndim == 4 else value

    def backward(self, error: Tensor, onward: bool) -> Tensor:
        if len(self._shape) != 4:
            return error
        count, rows, columns, channels = self._shape
        return error.view(count, channels, rows, columns).permute(0, 2, 3, 1).contiguous()

    def push(self, tangent: Tensor | None, direction: Named) -> Tensor | None:
        return None if tangent is None else self.forward(tangent)

    def pull(self, tangent: Tensor) -> Tensor:
        return self.backward(tangent, onward=True)


def known(layer: nn.Module) -> bool:
    """Whether there is a pass for the layer; a class made from a known one may do something else."""
    kind = type(layer)
    if isinstance(layer, nn.Conv2d) and kind is nn.Conv2d:
        plain = layer.padding_mode == "zeros" and layer.groups == 1 and set(layer.dilation) == {1}
        return plain and not isinstance(layer.padding, str)
    if isinstance(layer, nn.Flatten) and kind is nn.Flatten:
        return layer.start_dim == 1 and layer.end_dim == -1
    return kind in (nn.Linear, Rescale) or kind in SLOPES


def _times(rows: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """`rows` `[groups, r, k]` times the groups' one matrix `[k, n]` or each group's own `[groups, k, n]`, plus bias."""
    if matrix.ndim == 3:
        if bias is None:
            return torch.bmm(rows, matrix)
        return torch.baddbmm(bias[:, None], rows, matrix)
    flat = rows.flatten(0, 1)
    product = flat @ matrix if bias is None else torch.addmm(bias, flat, matrix)
    return product.view(*rows.shape[:2], -1)


def _flat(rows: Tensor) -> Tensor:
    return rows.flatten(0, 1)
