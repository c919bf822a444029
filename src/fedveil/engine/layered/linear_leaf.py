"""y = W x + b for many clients at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fedveil.engine.layered.held import Held
from fedveil.engine.layered.step import LeafStep, outside
from fedveil.native.products import multiply


class LinearMap:
    """One use of a weight `[O, I]` and a bias, or of a part of their first axis."""

    def __init__(
        self,
        leaf: Held,
        weight: str = "weight",
        bias: str | None = "bias",
        part: tuple[int, int] | None = None,
    ) -> None:
        self.step: LeafStep = leaf.step
        rows = slice(*part) if part else slice(None)
        self.part = part
        self.matrix = leaf.weights(weight)[:, rows]
        self.weight = leaf.trained(weight)
        has_bias = bias is not None and bias in leaf.names
        self.constant = leaf.weights(bias)[:, rows] if has_bias and bias else None
        self.bias = leaf.trained(bias) if bias else None

    def __call__(self, inputs: Tensor) -> Tensor:
        """`[N, …, O]` of `[N, …, I]`."""
        return _Linear.apply(inputs, self.step.anchor, self)  # type: ignore[no-any-return, no-untyped-call]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, anchor: Tensor, use: LinearMap) -> Tensor:
        step, matrix = use.step, use.matrix
        x = inputs.reshape(step.clients, -1, inputs.shape[-1])
        out = step.arena.take(x, len(x), x.shape[1], matrix.shape[1])
        multiply(x, matrix.mT, out)
        if use.constant is not None:
            out.add_(use.constant.unsqueeze(1))
        ctx.use, ctx.x, ctx.shape = use, x, inputs.shape
        return out.view(*inputs.shape[:-1], matrix.shape[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        use, x = ctx.use, ctx.x
        step: LeafStep = use.step
        delta = gradient.reshape(step.clients, -1, gradient.shape[-1])
        g = delta.view(step.clients, step.slots, -1, delta.shape[-1])
        if use.weight is not None:
            step.receive_product(use.weight, x.view(step.clients, step.slots, -1, x.shape[-1]), g, use.part)
        if use.bias is not None:
            step.receive_rows(use.bias, g.sum(dim=2) if g.shape[2] > 1 else g.squeeze(2), use.part)
        if not ctx.needs_input_grad[0]:
            return None, None, None
        out = step.arena.take(delta, *x.shape)
        return multiply(delta, use.matrix, out).view(ctx.shape), None, None


class HeldLinear(Held, nn.Linear):
    """`nn.Linear`, over any number of axes."""

    def forward(self, input: Tensor) -> Tensor:
        if input.shape[-1] != self.in_features:
            raise self.refuse(f"it takes {self.in_features} features, not {input.shape[-1]}")
        return outside(self.step, LinearMap(self), input)  # type: ignore[no-any-return]
