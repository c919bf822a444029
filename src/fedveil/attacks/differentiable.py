"""Gradients that can themselves be differentiated, fast, for many attacks at once on one shared model.

An attack asks for the slope of "the gradient of dummy data" with respect to the dummy data. All attacks of one view
look at the same public model, so the convolutions of all of them are one ordinary convolution; only the weight
gradients are each attack's own, and those are batched matrix products of patches. It is one more implementation of
the engine's `Gradients`; networks or parameters it does not know go to the general one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.core.parameters import Layout
from fedveil.engine.general import General, finite_rows, sum_rows
from fedveil.engine.gradients import Batch, Factors, Gradients, Rows, Sums
from fedveil.models.networks import Rescale

SLOPES: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.Sigmoid: lambda output: output * (1 - output),
    nn.Tanh: lambda output: 1 - output.square(),
    nn.ReLU: lambda output: (output > 0).to(output.dtype),
}
"""The slope of an activation as a function of its output."""


def differentiable(model: nn.Module) -> Gradients:
    """The fastest implementation for this network whose results autograd can follow."""
    return Differentiable.build(model) or General(model)


class Differentiable:
    """Convolutions, dense layers and smooth activations in a row; all clients at the same parameters."""

    random = False

    def __init__(self, model: nn.Sequential, general: General) -> None:
        self.layout: Layout = general.layout
        self._model, self._general = model, general

    @staticmethod
    def build(model: nn.Module) -> Differentiable | None:
        """None where a layer is not one of those known here."""
        known = isinstance(model, nn.Sequential) and all(map(_known, model))
        if not known or any(not parameter.requires_grad for parameter in model.parameters()):
            return None
        assert isinstance(model, nn.Sequential)
        return Differentiable(model, General(model))

    def rows(self, parameters: Tensor, batch: Batch) -> Rows:
        if not _shared(parameters):
            return self._general.rows(parameters, batch)
        count, slots = batch.labels.shape[:2]
        rows, losses = self._gradients(parameters[0], batch, groups=count * slots)
        return finite_rows(rows.view(count, slots, -1), losses, batch.weights, self.layout)

    def sums(self, parameters: Tensor, batch: Batch, factors: Factors | None) -> Sums:
        if not _shared(parameters):
            return self._general.sums(parameters, batch, factors)
        if factors is not None:
            return sum_rows(self.rows(parameters, batch), factors, self.layout)
        total, losses = self._gradients(parameters[0], batch, groups=len(batch.labels))
        return Sums(total, losses.detach().sum(dim=-1), None, torch.zeros(len(total), dtype=torch.int64))

    def _gradients(self, parameters: Tensor, batch: Batch, groups: int) -> tuple[Tensor, Tensor]:
        """Gradients `[groups, P]`, each summed over its share of the examples, and the losses `[K, B]`.

        Forward, then the errors backwards by hand; autograd sees only ordinary operations and can go through them.
        """
        named = self.layout.split(parameters)
        layers = list(self._model.named_children())
        values = [_channels_last(batch.inputs.flatten(0, 1))]
        for name, layer in layers:
            values.append(_forward(layer, named.get(f"{name}.weight"), named.get(f"{name}.bias"), values[-1]))
        targets = _targets(batch.labels, values[-1].shape[-1])
        logs = torch.log_softmax(values[-1], dim=-1)
        error = (logs.exp() - targets) * batch.weights.flatten()[:, None]
        found: dict[str, Tensor] = {}
        trainable = [index for index, (name, _) in enumerate(layers) if f"{name}.weight" in named]
        for index in range(len(layers) - 1, trainable[0] - 1, -1):
            name, layer = layers[index]
            weight = named.get(f"{name}.weight")
            if weight is not None:
                found[f"{name}.weight"] = _weight_gradient(layer, values[index], error, groups)
            if f"{name}.bias" in named:
                found[f"{name}.bias"] = _bias_gradient(error, groups)
            if index > trainable[0]:
                error = _backward(layer, weight, values[index], values[index + 1], error)
        losses = -(targets * logs).sum(dim=-1).view(batch.labels.shape[:2]) * batch.weights
        return self.layout.join(found, batch_dims=1), losses


def _known(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv2d):
        plain = layer.padding_mode == "zeros" and layer.groups == 1 and set(layer.dilation) == {1}
        return plain and not isinstance(layer.padding, str)
    if isinstance(layer, nn.Flatten):
        return layer.start_dim == 1 and layer.end_dim == -1
    return isinstance(layer, nn.Linear | Rescale) or type(layer) in SLOPES


def _channels_last(value: Tensor) -> Tensor:
    """Pictures as convolutions and patches are fastest with; rows as they are."""
    return value.contiguous(memory_format=torch.channels_last) if value.ndim == 4 else value


def _shared(parameters: Tensor) -> bool:
    """One vector seen by all clients, not one of each."""
    return len(parameters) == 1 or parameters.stride(0) == 0


def _targets(labels: Tensor, classes: int) -> Tensor:
    """One-hot rows; labels that already are distributions over the classes are taken as they are."""
    flat = labels.flatten(0, 1)
    return flat if flat.is_floating_point() else functional.one_hot(flat, classes).to(torch.float32)


def _forward(layer: nn.Module, weight: Tensor | None, bias: Tensor | None, value: Tensor) -> Tensor:
    if isinstance(layer, nn.Conv2d):
        assert weight is not None
        return functional.conv2d(value, weight, bias, layer.stride, layer.padding)
    if isinstance(layer, nn.Linear):
        assert weight is not None
        return functional.linear(value, weight, bias)
    return layer(value)  # type: ignore[no-any-return]


def _backward(layer: nn.Module, weight: Tensor | None, value: Tensor, output: Tensor, error: Tensor) -> Tensor:
    """The error at a layer's input from the one at its output."""
    if isinstance(layer, nn.Conv2d):
        assert weight is not None
        padding, stride, kernel = _pairs(layer)
        reach = [(output.shape[2 + d] - 1) * stride[d] - 2 * padding[d] + kernel[d] for d in (0, 1)]
        short = (value.shape[2] - reach[0], value.shape[3] - reach[1])
        return functional.conv_transpose2d(error, weight, None, stride, padding, output_padding=short)
    if isinstance(layer, nn.Linear):
        assert weight is not None
        return error @ weight
    if isinstance(layer, nn.Flatten):
        return _channels_last(error.view(value.shape))
    if isinstance(layer, Rescale):
        return error * layer.scale
    return error * SLOPES[type(layer)](output)


def _weight_gradient(layer: nn.Module, value: Tensor, error: Tensor, groups: int) -> Tensor:
    if isinstance(layer, nn.Linear):
        return error.reshape(groups, -1, error.shape[-1]).transpose(1, 2) @ value.reshape(groups, -1, value.shape[-1])
    assert isinstance(layer, nn.Conv2d)
    padding, stride, kernel = _pairs(layer)
    window = Window(groups, kernel, stride, padding)
    found: Tensor = PatchProduct.apply(value, error, window)  # type: ignore[no-untyped-call]
    return found


def _bias_gradient(error: Tensor, groups: int) -> Tensor:
    grouped = error.reshape(groups, -1, *error.shape[1:])
    return grouped.sum(dim=(1, *range(3, grouped.ndim)))


def _pairs(layer: nn.Conv2d) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    assert not isinstance(layer.padding, str)
    return _pair(layer.padding), _pair(layer.stride), _pair(layer.kernel_size)


def _pair(sizes: tuple[int, ...]) -> tuple[int, int]:
    return sizes[0], sizes[1]


@dataclass(frozen=True)
class Window:
    """A convolution's window, and how many groups of examples have a weight gradient of their own."""

    groups: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]


class PatchProduct(torch.autograd.Function):
    """Weight gradients of a convolution, group by group: errorᵀ · patches, and the slopes of both factors.

    Channels come last in memory, so that a patch is a few long runs; `unfold` and `fold` take several times as long.
    """

    @staticmethod
    def forward(context: Any, value: Tensor, error: Tensor, window: Window) -> Tensor:
        groups, (high, wide) = window.groups, window.kernel
        patches = _patches(value, window, error.shape[2:]).view(groups, -1, high * wide * value.shape[1])
        errors = error.permute(0, 2, 3, 1).reshape(groups, -1, error.shape[1])
        context.save_for_backward(patches, errors)
        context.window, context.value_shape, context.error_shape = window, value.shape, error.shape
        product = torch.bmm(errors.transpose(1, 2), patches)
        return product.view(groups, error.shape[1], high, wide, value.shape[1]).permute(0, 1, 4, 2, 3)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, slope: Tensor) -> tuple[Tensor | None, Tensor, None]:
        patches, errors = context.saved_tensors
        window, (_, channels, high, wide), error_shape = context.window, context.value_shape, context.error_shape
        residual = slope.permute(0, 1, 3, 4, 2).reshape(window.groups, errors.shape[-1], -1)
        to_errors = torch.bmm(patches, residual.transpose(1, 2))
        to_errors = to_errors.view(error_shape[0], *error_shape[2:], error_shape[1]).permute(0, 3, 1, 2)
        if not context.needs_input_grad[0]:
            return None, to_errors, None
        shape = (error_shape[0], high, wide, channels)
        if window.stride == (1, 1):
            return _spread(errors, residual, window, shape, error_shape).permute(0, 3, 1, 2), to_errors, None
        return _fold(torch.bmm(errors, residual), window, shape, error_shape[2:]).permute(0, 3, 1, 2), to_errors, None


def _patches(value: Tensor, window: Window, places: torch.Size) -> Tensor:
    """`[examples, *places, *kernel, channels]`, a copy."""
    (top, left), (down, along), (high, wide) = window.padding, window.stride, window.kernel
    count, channels, rows, columns = value.shape
    padded = value.new_zeros(count, rows + 2 * top, columns + 2 * left, channels)
    padded[:, top : top + rows, left : left + columns] = value.permute(0, 2, 3, 1)
    image, row, column, _ = padded.stride()
    shape = (count, *places, high, wide * channels)
    return padded.as_strided(shape, (image, row * down, column * along, row, 1)).contiguous()


def _fold(patches: Tensor, window: Window, shape: tuple[int, int, int, int], places: torch.Size) -> Tensor:
    """Patches added up where they came from: the adjoint of `_patches`, channels last."""
    (top, left), (down, along), (high, wide) = window.padding, window.stride, window.kernel
    count, rows, columns, channels = shape
    parts = patches.view(count, *places, high, wide, channels)
    padded = patches.new_zeros(count, rows + 2 * top, columns + 2 * left, channels)
    for y in range(high):
        for x in range(wide):
            target = padded[:, y : y + places[0] * down : down, x : x + places[1] * along : along]
            target[:, : places[0], : places[1]] += parts[:, :, :, y, x]
    return padded[:, top : top + rows, left : left + columns]


def _spread(
    errors: Tensor, residual: Tensor, window: Window, shape: tuple[int, int, int, int], error_shape: torch.Size
) -> Tensor:
    """errors · residual, folded, for stride 1: patches of the errors times the turned kernel, which needs no fold."""
    (top, left), (high, wide) = window.padding, window.kernel
    count, rows, columns, channels = shape
    turned = Window(window.groups, window.kernel, (1, 1), (high - 1 - top, wide - 1 - left))
    image = errors.view(count, *error_shape[2:], error_shape[1]).permute(0, 3, 1, 2)
    patches = _patches(image, turned, torch.Size((rows, columns))).view(window.groups, -1, high * wide * error_shape[1])
    kernel = residual.view(window.groups, error_shape[1], high, wide, channels).flip(2, 3).permute(0, 2, 3, 1, 4)
    return torch.bmm(patches, kernel.reshape(window.groups, -1, channels)).view(shape)
