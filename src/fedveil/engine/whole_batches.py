"""Sums of gradients where nobody clips: one client after another, each batch in one ordinary backward pass.

No single example's gradient is formed, so this costs what any training loop costs. It holds for networks in which
examples do not meet: there the gradient of the summed loss is the sum of the examples' gradients. That is tried once,
on records that are nobody's, before it is relied on.
"""

from __future__ import annotations

import copy
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from fedveil.core.objectives import Objective
from fedveil.core.parameters import Layout
from fedveil.core.torch_warnings import without_torch_warnings
from fedveil.engine.gradients import Batch

CLOSE = 1e-3
"""Of the gradient's length: more than rounding does, less than a neighbour that is looked at."""

MOST_TRIES = 3
"""A ReLU may fall on the other side of its bend, by chance, where batches of one and of two round differently; where
examples meet they do so in every try."""


class WholeBatches:
    """Gradients of the summed loss of a client's batch, by ordinary autograd on a copy of the network."""

    def __init__(self, model: nn.Module, layout: Layout, objective: Objective, random: bool) -> None:
        self._layout, self._objective, self._random = layout, objective, random
        self._model = copy.deepcopy(model).train()
        named = dict(self._model.named_parameters())
        self._trained = [named[name] for name in layout.names]
        self._sound: dict[torch.Size, bool] = {}
        self._total: Tensor | None = None
        self._bound, self._places = (0, 0), list[Tensor]()

    def sums(self, parameters: Tensor, batch: Batch) -> tuple[Tensor, Tensor] | None:
        """Gradients `[K, P]` and losses `[K]`, sums over the batch; None where examples meet in this network.

        The gradients live in memory of this object: they are the caller's, to change too, until the next call.
        """
        if not self._examples_are_apart(parameters[0], batch):
            return None
        seeds = batch.seeds or (0,) * len(parameters)
        total, losses = self._memory(parameters), []
        with torch.random.fork_rng(devices=[]) if self._random else nullcontext():
            for k, seed in enumerate(seeds):
                if self._random:
                    torch.manual_seed(seed)
                loss = self._gradient(parameters[k], batch.inputs[k], batch.labels[k], batch.weights[k], total[k])
                losses.append(loss)
        return total, torch.stack(losses)

    def _memory(self, parameters: Tensor) -> Tensor:
        """Room for the gradients, the same in every call: fresh pages cost more than the arithmetic done on them."""
        if self._total is None or self._total.shape != parameters.shape or self._total.dtype != parameters.dtype:
            self._total = torch.empty_like(parameters, memory_format=torch.contiguous_format)
        return self._total

    def _gradient(self, parameters: Tensor, inputs: Tensor, labels: Tensor, weights: Tensor, out: Tensor) -> Tensor:
        """One client's: the gradient goes to `out`, the loss is returned."""
        self._bind(parameters, out)
        with torch.enable_grad(), without_torch_warnings():
            losses = self._objective.losses(self._model(inputs), labels)
            if not bool((weights > 0).all()):
                losses = torch.where(weights > 0, losses, 0.0)
            loss = losses.sum()
            made = torch.autograd.grad(loss, self._trained, materialize_grads=True)
        torch._foreach_copy_(self._places, made)
        return loss.detach()

    def _bind(self, parameters: Tensor, out: Tensor) -> None:
        """Let the network compute with `parameters`, and find the places in `out`: mostly as in the last call.

        What the network holds is not freed, so whatever has the same address is the same memory.
        """
        memory = (parameters.data_ptr(), out.data_ptr())
        if memory == self._bound:
            return
        sizes = list(self._layout.sizes)
        shapes = [own.shape for own in self._trained]
        for own, value, shape in zip(self._trained, torch.split(parameters, sizes), shapes, strict=True):
            own.data = value.view(shape)
        self._places = [part.view(shape) for part, shape in zip(torch.split(out, sizes), shapes, strict=True)]
        self._bound = memory

    def _examples_are_apart(self, parameters: Tensor, batch: Batch) -> bool:
        """Whether an example's gradient is the same whoever is beside it, and the batch's the sum of such."""
        shape = batch.inputs.shape[2:]
        if shape not in self._sound:
            try:
                self._sound[shape] = any(self._tried(parameters, batch, number) for number in range(MOST_TRIES))
            except Exception:  # a user's network can fail in any way; the other path then says how
                self._sound[shape] = False
        return self._sound[shape]

    def _tried(self, parameters: Tensor, batch: Batch, number: int) -> bool:
        generator = torch.Generator().manual_seed(number)
        shape = (2, *batch.inputs.shape[2:])
        moved = parameters + 0.1 * torch.randn(parameters.shape, generator=generator, dtype=parameters.dtype)
        if batch.inputs.is_floating_point():
            records = torch.rand(shape, generator=generator, dtype=batch.inputs.dtype)
            other = 2 * torch.rand(shape[1:], generator=generator, dtype=batch.inputs.dtype) - 1
        else:
            records = torch.randint(0, 2, shape, generator=generator, dtype=batch.inputs.dtype)
            other = 1 - records[1]
        labels = torch.zeros(2, dtype=batch.labels.dtype)

        def gradient(inputs: Tensor, weights: tuple[float, ...]) -> Tensor:
            out = torch.empty_like(moved)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                self._gradient(moved, inputs, labels[: len(inputs)], torch.tensor(weights), out)
            return out

        first, second, both = (gradient(records, weights) for weights in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0)))
        beside = gradient(torch.stack([records[0], other]), (1.0, 0.0))
        pairs = [(first, beside), (first + second, both)]
        if not self._random:
            pairs.append((first, gradient(records[:1], (1.0,))))
        most = CLOSE * (first.norm() + second.norm())
        return bool(torch.isfinite(both).all()) and all(bool((one - two).norm() <= most) for one, two in pairs)
