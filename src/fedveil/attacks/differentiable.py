"""Gradients that can themselves be differentiated, fast, for many attacks at once.

One more implementation of the engine's `Gradients`: both the gradient and its slope are written out (`passes`), and
autograd sees a single operation. Networks it does not know go to the general implementation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.attacks import passes
from fedveil.attacks.passes import Named, Pass
from fedveil.core.parameters import Layout
from fedveil.engine.general import General, finite_rows, sum_rows
from fedveil.engine.gradients import Batch, Factors, Gradients, Rows, Sums
from fedveil.models.networks import Rescale


def differentiable(model: nn.Module) -> Gradients:
    """The fastest implementation for this network whose results autograd can follow."""
    return Differentiable.build(model) or General(model)


class Differentiable:
    """Convolutions, dense layers and activations in a row. Autograd can follow it once."""

    random = False

    def __init__(self, model: nn.Sequential) -> None:
        self.layout = Layout.of(model)
        self._model = model

    @staticmethod
    def build(model: nn.Module) -> Differentiable | None:
        """None where a layer is not one of those known here."""
        known = isinstance(model, nn.Sequential) and all(map(passes.known, model))
        if not known or any(not parameter.requires_grad for parameter in model.parameters()):
            return None
        assert isinstance(model, nn.Sequential)
        return Differentiable(model)

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
            inputs, batch.labels.flatten(0, 1), seen, weights, groups, self._model, self.layout
        )
        return total, losses.view(batch.labels.shape[:2])


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
        model: nn.Sequential,
        layout: Layout,
    ) -> tuple[Tensor, Tensor]:
        named = layout.split(parameters)
        value = inputs.permute(0, 2, 3, 1) if inputs.ndim == 4 else inputs
        made: list[tuple[str, Pass]] = []
        for name, layer in model.named_children():
            made.append((name, _pass(layer, _of(name, named), groups, value.shape)))
            value = made[-1][1].forward(value)
        logs, targets = torch.log_softmax(value, dim=-1), _targets(labels, value.shape[-1])
        shares = logs.exp()
        error = (shares - targets) * weights[:, None]
        total = inputs.new_empty(groups, layout.size)
        found = layout.split(total)
        trainable = [index for index, (name, _) in enumerate(made) if f"{name}.weight" in named]
        for index in range(len(made) - 1, trainable[0] - 1, -1):
            name, one = made[index]
            error = one.backward(error, onward=index > trainable[0])
            if isinstance(one, passes.Affine):
                _write(found, name, one.gradient())
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
            return passes.Convolution(layer, parameters, groups, shape[1:3])
        case nn.Linear():
            return passes.Dense(parameters, groups)
        case nn.Flatten():
            return passes.Flattening()
        case Rescale():
            return passes.Scaling(layer)
    return passes.Activation(layer)
