"""Normalisations within one example, and the weights and constants behind them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fedveil.engine.layered.held import Held
from fedveil.engine.layered.step import LeafStep, outside
from fedveil.native.group_norms import normalise, normalise_back


class NormWeights:
    """One use of a normalisation's weights `[K, C]` and constants `[K, C]`."""

    def __init__(self, leaf: Held) -> None:
        self.step: LeafStep = leaf.step
        self.weight, self.bias = leaf.trained("weight"), leaf.trained("bias")
        self.scale = leaf.weights("weight").flatten(1)
        self.shift = leaf.weights("bias").flatten(1) if "bias" in leaf.names else torch.zeros_like(self.scale)

    def receive(self, by_scale: Tensor, by_shift: Tensor) -> None:
        """Gradients `[K, B, C]` of each example."""
        for name, rows in ((self.weight, by_scale), (self.bias, by_shift)):
            if name is not None:
                self.step.receive_rows(name, rows)


class _Groups(torch.autograd.Function):
    """Groups of channels `[S, C, *size]`, S a multiple of all examples; each group has mean 0 and variance 1."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, anchor: Tensor, use: NormWeights, groups: int, eps: float) -> Tensor:
        pictures, channels, *size = inputs.shape
        last = inputs.movedim(1, -1).reshape(pictures, -1, channels)
        out, found = normalise(last, use.scale, use.shift, groups, eps)
        ctx.use, ctx.last, ctx.found, ctx.groups = use, last, found, groups
        return out.view(pictures, *size, channels).movedim(-1, 1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        use, last = ctx.use, ctx.last
        delta = gradient.movedim(1, -1)
        rows, by_inputs = normalise_back(
            last, delta.reshape(last.shape), use.scale, ctx.found, ctx.groups, through=ctx.needs_input_grad[0]
        )
        by_scale, by_shift = rows.view(use.step.clients, use.step.slots, -1, 2, last.shape[-1]).sum(dim=2).unbind(2)
        use.receive(by_scale, by_shift)
        return None if by_inputs is None else by_inputs.view(delta.shape).movedim(-1, 1), None, None, None, None


class _Layer(torch.autograd.Function):
    """The last axis `[N, …, C]` has mean 0 and variance 1."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, anchor: Tensor, use: NormWeights, eps: float) -> Tensor:
        channels = inputs.shape[-1]
        unit, mean, inverse = torch.native_layer_norm(inputs, [channels], None, None, eps)
        own = unit.view(use.step.clients, -1, channels)
        ctx.use, ctx.inputs, ctx.unit, ctx.mean, ctx.inverse = use, inputs, unit, mean, inverse
        return torch.addcmul(use.shift.unsqueeze(1), own, use.scale.unsqueeze(1)).view(inputs.shape)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        use: NormWeights = ctx.use
        channels = gradient.shape[-1]
        delta = gradient.reshape(use.step.clients, use.step.slots, -1, channels)
        use.receive((delta * ctx.unit.view(delta.shape)).sum(dim=2), delta.sum(dim=2))
        if not ctx.needs_input_grad[0]:
            return None, None, None, None
        scaled = (delta * use.scale[:, None, None]).view(gradient.shape)
        back = torch.ops.aten.native_layer_norm_backward(
            scaled, ctx.inputs, [channels], ctx.mean, ctx.inverse, None, None, [True, False, False]
        )
        return back[0], None, None, None


class HeldGroupNorm(Held, nn.GroupNorm):
    def forward(self, input: Tensor) -> Tensor:
        def normalised(whole: Tensor) -> Tensor:
            flat: Tensor = _Groups.apply(  # type: ignore[no-untyped-call]
                whole.flatten(0, 1), self.step.anchor, NormWeights(self), self.num_groups, self.eps
            )
            return self.step.laid_out(flat.view(whole.shape))

        if input.dim() < 2 or input.shape[1] != self.num_channels:
            raise self.refuse(f"it takes {self.num_channels} channels along the second axis")
        return outside(self.step, normalised, input)  # type: ignore[no-any-return]


class HeldInstanceNorm(Held, nn.InstanceNorm2d):
    """Every channel is a group of its own; of pictures, of lines (`nn.InstanceNorm1d`) or of volumes."""

    def forward(self, input: Tensor) -> Tensor:
        def normalised(whole: Tensor) -> Tensor:
            flat: Tensor = _Groups.apply(  # type: ignore[no-untyped-call]
                whole.flatten(0, 1), self.step.anchor, NormWeights(self), self.num_features, self.eps
            )
            return self.step.laid_out(flat.view(whole.shape))

        self._check_input_dim(input)
        if input.dim() == self._get_no_batch_dim():
            return self.forward(input.unsqueeze(0)).squeeze(0)
        if input.shape[1] != self.num_features:
            raise self.refuse(f"it takes {self.num_features} channels along the second axis")
        if input.shape[2:].numel() < 2:
            raise self.refuse("its pictures have a single point")
        return outside(self.step, normalised, input)  # type: ignore[no-any-return]


class HeldLineInstanceNorm(HeldInstanceNorm):
    _check_input_dim = nn.InstanceNorm1d._check_input_dim
    _get_no_batch_dim = nn.InstanceNorm1d._get_no_batch_dim


class HeldLayerNorm(Held, nn.LayerNorm):
    def forward(self, input: Tensor) -> Tensor:
        axes = len(self.normalized_shape)

        def normalised(whole: Tensor) -> Tensor:
            flat = whole.flatten(start_dim=-axes)
            out: Tensor = _Layer.apply(flat, self.step.anchor, NormWeights(self), self.eps)  # type: ignore[no-untyped-call]
            return out.view(whole.shape)

        if tuple(input.shape[-axes:]) != tuple(self.normalized_shape):
            raise self.refuse(f"it takes {list(self.normalized_shape)}")
        return outside(self.step, normalised, input)  # type: ignore[no-any-return]
