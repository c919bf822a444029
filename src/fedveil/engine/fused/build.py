"""From a module to the stages that compute the same, or to nothing where a part is not known."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from fedveil.core.parameters import Layout
from fedveil.engine.fused.convolution import Convolution
from fedveil.engine.fused.dense import Dense
from fedveil.engine.fused.direct_convolution import DirectConvolution
from fedveil.engine.fused.direct_stages import DirectFlatten, DirectMaxPool, DirectRelu
from fedveil.engine.fused.first_convolution import FirstConvolution
from fedveil.engine.fused.geometry import Geometry
from fedveil.engine.fused.pools import AveragePool, MaxPool
from fedveil.engine.fused.stages import (
    RELU,
    SIGMOID,
    TANH,
    Activation,
    Flatten,
    Layer,
    Rule,
    Stage,
    elu,
    gelu,
    rescale,
)
from fedveil.models.networks import Rescale
from fedveil.native.small_layers import MOST_TAPS


class Unknown(Exception):
    """The model has a part for which there is no stage."""


def stages_of(model: nn.Module, layout: Layout, input_shape: tuple[int, ...], lanes: int) -> list[Stage]:
    """The stages of `model` for examples of `input_shape`; raises `Unknown` rather than guess.

    With `lanes` they are computed in C on vectors of so many floats, where there is a kernel.
    """
    return _Builder(layout, input_shape, lanes).build(leaves_of(model, layout))


def leaves_of(model: nn.Module, layout: Layout) -> list[tuple[str, nn.Module]]:
    """The parts of a plain row of layers, as often as they are called; raises `Unknown` where it may be more."""
    leaves = list(_leaves(model, ""))
    _check_parameters(model, leaves, layout)
    return leaves


def _leaves(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """The modules in the order they are called, with their names; only `Sequential` is looked into."""
    if module._forward_hooks or module._forward_pre_hooks:
        raise Unknown(f"{name} has hooks")
    if module._backward_hooks or module._backward_pre_hooks:
        raise Unknown(f"{name} has hooks")
    if type(module) is nn.Sequential:
        for child_name, child in module._modules.items():
            assert child is not None
            yield from _leaves(child, f"{name}.{child_name}" if name else child_name)
    else:
        yield name, module


def _check_parameters(model: nn.Module, leaves: list[tuple[str, nn.Module]], layout: Layout) -> None:
    """Every parameter must be trainable, float32, in main memory and owned by exactly one leaf."""
    owned: list[Tensor] = []
    for name, leaf in leaves:
        for short, parameter in leaf.named_parameters():
            if short not in ("weight", "bias"):
                raise Unknown(f"{name} has a parameter {short}")
            owned.append(parameter)
    if len({id(parameter) for parameter in owned}) != len(owned):
        raise Unknown("a parameter is shared")
    for tensor in owned:
        known = tensor.dtype == torch.float32 and tensor.device.type == "cpu"
        if not (known and tensor.requires_grad):
            raise Unknown("a parameter is frozen, or not float32 in main memory")
    if not owned or len(owned) != len(layout.names) or next(model.buffers(), None) is not None:
        raise Unknown("parameters or buffers outside the known layers")


class _Builder:
    """Walks through the leaves with the shape of one example and whether its image is channels last."""

    def __init__(self, layout: Layout, input_shape: tuple[int, ...], lanes: int) -> None:
        self.lanes = lanes
        self.groups = dict(zip(layout.names, layout.groups, strict=True))
        starts = layout.offsets
        self.slices = {name: slice(starts[i], starts[i + 1]) for i, name in enumerate(layout.names)}
        self.shape = input_shape
        self.channels_last = False
        self.stages: list[Stage] = []

    def build(self, leaves: list[tuple[str, nn.Module]]) -> list[Stage]:
        for name, leaf in leaves:
            after = self._shape_after(leaf)
            stage = self._stage(name, leaf, after)
            if stage is not None:
                self.stages.append(stage)
            self.shape = after
        if len(self.shape) != 1:
            raise Unknown("the outputs are not one row of numbers per example")
        return self.stages

    def _shape_after(self, leaf: nn.Module) -> tuple[int, ...]:
        try:
            with torch.no_grad():
                return tuple(leaf(torch.zeros(1, *self.shape)).shape[1:])
        except (RuntimeError, ValueError, TypeError, NotImplementedError, AttributeError) as error:
            raise Unknown("a part does not take its input") from error

    def _stage(self, name: str, leaf: nn.Module, after: tuple[int, ...]) -> Stage | None:
        """The stage for `leaf`; None where it does nothing."""
        kind = type(leaf)
        if kind is nn.Identity or (isinstance(leaf, nn.Dropout) and kind is nn.Dropout and leaf.p == 0):
            return None
        rule = _rule(leaf)
        before = self.stages[-1] if self.stages else None
        if rule is RELU and isinstance(before, DirectConvolution) and not before.relu:
            before.relu = True
            return None
        if rule is RELU and self.lanes:
            return DirectRelu(torch.Size(after).numel(), self.lanes)
        if rule is not None:
            in_place = bool(self.stages) and isinstance(self.stages[-1], Layer)
            return Activation(rule, torch.Size(after).numel(), in_place)
        if isinstance(leaf, nn.Flatten) and kind is nn.Flatten:
            return self._flatten(leaf)
        if isinstance(leaf, nn.Linear) and kind is nn.Linear:
            return self._dense(name, leaf)
        if len(self.shape) != 3:
            raise Unknown(f"{name}: {kind.__name__}")
        if isinstance(leaf, nn.Conv2d) and kind is nn.Conv2d:
            return self._convolution(name, leaf)
        size = torch.Size(self.shape).numel()
        if isinstance(leaf, nn.MaxPool2d) and kind is nn.MaxPool2d and not leaf.return_indices:
            if self.lanes and self.channels_last and DirectMaxPool.takes(leaf):
                return DirectMaxPool(leaf, self.shape, self.lanes)
            return MaxPool(leaf, size, self.channels_last)
        if isinstance(leaf, nn.AvgPool2d) and kind is nn.AvgPool2d:
            return AveragePool(leaf, size, self.channels_last)
        raise Unknown(f"{name}: {kind.__name__}")

    def _flatten(self, leaf: nn.Flatten) -> Stage | None:
        if leaf.start_dim != 1 or leaf.end_dim not in (-1, len(self.shape)):
            raise Unknown("a partial flatten")
        if len(self.shape) == 1:
            return None
        if self.lanes and self.channels_last:
            return DirectFlatten(self.shape, self.lanes)
        return Flatten(torch.Size(self.shape).numel(), self.channels_last)

    def _places(self, name: str, bias: Tensor | None) -> tuple[int, slice, slice | None]:
        prefix = f"{name}." if name else ""
        weight = f"{prefix}weight"
        where = None if bias is None else self.slices[f"{prefix}bias"]
        return self.groups[weight], self.slices[weight], where

    def _dense(self, name: str, leaf: nn.Linear) -> Layer:
        if len(self.shape) != 1:
            raise Unknown(f"{name}: a dense layer over more than features")
        group, weight, bias = self._places(name, leaf.bias)
        return Dense(group, leaf.in_features, leaf.out_features, weight, bias, self.lanes)

    def _convolution(self, name: str, leaf: nn.Conv2d) -> Layer:
        plain = leaf.dilation == (1, 1) and leaf.groups == 1 and leaf.padding_mode == "zeros"
        if not plain or isinstance(leaf.padding, str):
            raise Unknown(f"{name}: an unusual convolution")
        geometry = Geometry(
            channels=leaf.in_channels,
            filters=leaf.out_channels,
            size=(self.shape[1], self.shape[2]),
            kernel=_two(leaf.kernel_size),
            stride=_two(leaf.stride),
            padding=_two(leaf.padding),
        )
        first = not self.channels_last
        self.channels_last = True
        group, weight, bias = self._places(name, leaf.bias)
        if self.lanes and geometry.taps <= MOST_TAPS:
            return DirectConvolution(group, geometry, weight, bias, planar=first, lanes=self.lanes)
        return (FirstConvolution if first else Convolution)(group, geometry, weight, bias)


def _rule(leaf: nn.Module) -> Rule | None:
    kind = type(leaf)
    if kind is nn.ReLU:
        return RELU
    if kind is nn.Sigmoid:
        return SIGMOID
    if kind is nn.Tanh:
        return TANH
    if isinstance(leaf, Rescale) and kind is Rescale:
        return rescale(leaf)
    if isinstance(leaf, nn.ELU) and kind is nn.ELU:
        return elu(leaf)
    if isinstance(leaf, nn.GELU) and kind is nn.GELU:
        return gelu(leaf)
    return None


def _two(values: tuple[int, ...]) -> tuple[int, int]:
    first, second = values
    return first, second
