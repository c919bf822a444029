"""Gradients that can themselves be differentiated, fast, for many attacks at once.

One more implementation of the engine's `Gradients`: both the gradient and its slope are written out (`passes`), and
autograd sees a single operation. Networks it does not know go to the general implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.attacks.inversion import passes
from fedveil.attacks.inversion.passes import Named, Pass
from fedveil.core.objectives import CROSS_ENTROPY, Objective
from fedveil.core.parameters import Layout
from fedveil.engine.fused.build import Unknown, leaves_of
from fedveil.engine.general import General, finite_rows, sum_rows
from fedveil.engine.gradients import Batch, Factors, Gradients, Rows, Sums
from fedveil.models.networks import Rescale

Layers = list[tuple[str, nn.Module]]
"""A network's layers with their names, in the order in which they are called."""


def differentiable(model: nn.Module, input_shape: Sequence[int], objective: Objective = CROSS_ENTROPY) -> Gradients:
    """The fastest implementation for this network, on records of this shape, whose results autograd can follow."""
    fast = Differentiable.build(model, input_shape) if objective == CROSS_ENTROPY else None
    return fast or General(model, objective)


class Differentiable:
    """Convolutions, dense layers and activations in a row, and plain cross-entropy. Autograd can follow it once."""

    random = False

    def __init__(self, layout: Layout, layers: Layers) -> None:
        self.layout = layout
        self._layers = layers

    @staticmethod
    def build(model: nn.Module, input_shape: Sequence[int]) -> Differentiable | None:
        """None where the network is more than a row of layers that are known here."""
        layout = Layout.of(model)
        try:
            layers = leaves_of(model, layout)
        except Unknown:
            return None
        return Differentiable(layout, layers) if _in_order(layers, input_shape) else None

    def rows(self, parameters: Tensor, batch: Batch) -> Rows:
        count, slots = batch.labels.shape[:2]
        own = parameters if _shared(parameters) else parameters.repeat_interleave(slots, dim=0)
        rows, losses = self._gradients(own, batch, groups=count * slots)
        return finite_rows(rows.view(count, slots, -1), losses, batch.weights, self.layout)

    def sums(self, parameters: Tensor, batch: Batch, factors: Factors | None) -> Sums:
        if factors is not None:
            return sum_rows(self.rows(parameters, batch), factors, self.layout)
        total, losses = self._gradients(parameters, batch, groups=len(batch.labels))
        return Sums(total, losses.sum(dim=-1), None, torch.zeros(len(total), dtype=torch.int64))

    def _gradients(self, parameters: Tensor, batch: Batch, groups: int) -> tuple[Tensor, Tensor]:
        """Gradients `[groups, P]`, each summed over its share of the examples, and the losses `[K, B]`."""
        inputs, weights = batch.inputs.flatten(0, 1), batch.weights.flatten()
        seen = parameters[0] if _shared(parameters) else parameters
        total, losses = _Gradient.apply(  # type: ignore[no-untyped-call]
            inputs, batch.labels.flatten(0, 1), seen, weights, groups, self._layers, self.layout
        )
        return total, losses.view(batch.labels.shape[:2])


def _in_order(layers: Layers, input_shape: Sequence[int]) -> bool:
    """Whether every layer is known and meets what its pass expects: convolutions pictures, dense layers features."""
    if len(input_shape) not in (1, 3) or any(not name for name, _ in layers):
        return False
    flat = len(input_shape) == 1
    for _, layer in layers:
        if not passes.known(layer) or (isinstance(layer, nn.Linear) and not flat):
            return False
        if isinstance(layer, nn.Conv2d) and flat:
            return False
        flat = flat or isinstance(layer, nn.Flatten)
    return flat


def _shared(parameters: Tensor) -> bool:
    """One public vector seen by all, not one of each that depends on its records."""
    return not parameters.requires_grad and (len(parameters) == 1 or parameters.stride(0) == 0)


def _targets(labels: Tensor, classes: int) -> Tensor:
    """One-hot rows; labels that already are distributions over the classes are taken as they are."""
    return labels if labels.is_floating_point() else functional.one_hot(labels, classes).to(torch.float32)


class _Gradient(torch.autograd.Function):
    """The parameters' gradient `[groups, P]` as a function of records, soft labels and parameters; and the losses.

    `parameters` are `[groups, P]`, or `[P]` for all.
    """

    @staticmethod
    def forward(
        context: Any,
        inputs: Tensor,
        labels: Tensor,
        parameters: Tensor,
        weights: Tensor,
        groups: int,
        layers: Layers,
        layout: Layout,
    ) -> tuple[Tensor, Tensor]:
        named = layout.split(parameters)
        value = inputs.permute(0, 2, 3, 1) if inputs.ndim == 4 else inputs
        made: list[tuple[str, Pass]] = []
        for name, layer in layers:
            made.append((name, _pass(layer, _of(name, named), groups, value.shape)))
            value = made[-1][1].forward(value)
        logs, targets = torch.log_softmax(value, dim=-1), _targets(labels, value.shape[-1])
        shares = logs.exp()
        error = (shares - targets) * weights[:, None]
        total = inputs.new_empty(groups, layout.size)
        gradients = layout.split(total)
        trainable = [index for index, (name, _) in enumerate(made) if f"{name}.weight" in named]
        for index in range(len(made) - 1, trainable[0] - 1, -1):
            name, one = made[index]
            error = one.backward(error, onward=index > trainable[0])
            if isinstance(one, passes.Affine):
                _write(gradients, name, one.gradient())
        losses = -(targets * logs).sum(dim=-1) * weights
        context.made, context.layout, context.shares, context.weights = made, layout, shares, weights
        context.mark_non_differentiable(losses)
        return total, losses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, direction: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Slopes of ⟨direction, gradient⟩: tangents along the direction, forward and backward through the layers."""
        made, named = context.made, context.layout.split(direction)
        tangent: Tensor | None = None
        for name, one in made:
            tangent = one.push(tangent, _of(name, named))
        assert tangent is not None
        shares, weights = context.shares, context.weights[:, None]
        pulled = weights * shares * (tangent - (shares * tangent).sum(dim=1, keepdim=True))
        for _, one in reversed(made):
            pulled = one.pull(pulled)
        to_inputs = pulled.permute(0, 3, 1, 2) if pulled.ndim == 4 else pulled
        to_labels = -weights * tangent if context.needs_input_grad[1] else None
        to_parameters = _turned(made, context.layout, direction) if context.needs_input_grad[2] else None
        return to_inputs, to_labels, to_parameters, None, None, None, None


def _turned(made: list[tuple[str, Pass]], layout: Layout, direction: Tensor) -> Tensor:
    """The tangent of the gradient itself."""
    turned = torch.empty_like(direction)
    views = layout.split(turned)
    for name, one in made:
        if isinstance(one, passes.Affine):
            _write(views, name, one.gradient_tangent())
    return turned


def _of(name: str, named: Named) -> Named:
    return {kind: named[f"{name}.{kind}"] for kind in ("weight", "bias") if f"{name}.{kind}" in named}


def _write(named: Named, name: str, parts: Named) -> None:
    for kind, target in _of(name, named).items():
        target.copy_(parts[kind])


def _pass(layer: nn.Module, parameters: Named, groups: int, shape: torch.Size) -> Pass:
    match layer:
        case nn.Conv2d():
            return passes.ConvolutionPass(layer, parameters, groups, shape[1:3])
        case nn.Linear():
            return passes.DensePass(parameters, groups)
        case nn.Flatten():
            return passes.FlatteningPass()
        case Rescale():
            return passes.ScalingPass(layer)
    return passes.ActivationPass(layer)
