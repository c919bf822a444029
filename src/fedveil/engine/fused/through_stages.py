"""The passes through the network: stage by stage for all clients, or a few clients at a time through all stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fedveil.core.objectives import Objective
from fedveil.core.parameters import Layout
from fedveil.engine.fused.output_deltas import output_deltas
from fedveil.engine.fused.stages import Layer, Stage
from fedveil.engine.fused.workspace import Shelf
from fedveil.engine.gradients import Batch
from fedveil.mechanisms.clip import Limit
from fedveil.native.calls import Lasting, NotRecorded, Program, recorded
from fedveil.native.small_layers import ConvolutionShape


@dataclass(frozen=True)
class Network:
    """The stages, and what they are for. With `lanes` the loss is computed in C."""

    layout: Layout
    stages: tuple[Stage, ...]
    objective: Objective
    input_shape: tuple[int, ...]
    lanes: int

    @property
    def layers(self) -> list[tuple[int, Layer]]:
        """The stages with parameters, and where they are."""
        return [(place, stage) for place, stage in enumerate(self.stages) if isinstance(stage, Layer)]


class StageByStage:
    """Every stage for all clients, for a fixed number K of them and B of slots.

    What comes back lives in memory that the next pass writes anew.
    """

    def __init__(self, network: Network, clients: int, slots: int) -> None:
        self._network = network
        self._shelves = [Shelf(clients, slots) for _ in range(len(network.stages) + 1)]

    def norms(self, parameters: Tensor, batch: Batch) -> tuple[Tensor, list[Tensor]]:
        """The losses `[K, B]`, and the norms `[K, B]` of each example's gradient for every group of the layout.

        The loss of padding is zero; its norms may be anything.
        """
        losses, delta = self._forward(parameters, batch, cut=False)
        norms: dict[int, Tensor] = {}
        for stage, shelf, is_first in self._backwards():
            if isinstance(stage, Layer):
                norms[stage.group] = stage.measure(delta, shelf)
            if not is_first:
                delta = stage.backward(delta, parameters, shelf)
        return losses, [norms[group] for group in range(len(norms))]

    def collect(self, factors: Sequence[Tensor], total: Tensor) -> None:
        """Write the sums of the same gradients times each group's factors `[K, B]` to `total` `[K, P]`."""
        for place, stage in self._network.layers:
            stage.collect(factors[stage.group], total, self._shelves[place])

    def plain(self, parameters: Tensor, batch: Batch, total: Tensor) -> tuple[Tensor, list[Tensor | None]]:
        """The losses; writes the plain sums of the gradients. For each group norms `[K, B]`, where that is cheap."""
        losses, delta = self._forward(parameters, batch, cut=True)
        bounds: dict[int, Tensor | None] = {}
        for stage, shelf, is_first in self._backwards():
            if isinstance(stage, Layer):
                bounds[stage.group] = stage.accumulate(delta, total, shelf)
            if not is_first:
                delta = stage.backward(delta, parameters, shelf)
        return losses, [bounds[group] for group in range(len(bounds))]

    def rows(self, rows: Tensor) -> None:
        """Write the gradients `[K, B, P]` that `norms` has seen."""
        for place, stage in self._network.layers:
            stage.rows(rows, self._shelves[place])

    def _forward(self, parameters: Tensor, batch: Batch, *, cut: bool) -> tuple[Tensor, Tensor]:
        """Each example's loss `[K, B]` and its derivative by the outputs `[K, B, outputs]`."""
        outputs = batch.inputs.contiguous()
        for stage, shelf in zip(self._network.stages, self._shelves, strict=False):
            outputs = stage.forward(outputs, parameters, shelf)
        network = self._network
        return output_deltas(network.objective, outputs, batch, self._shelves[-1], lanes=network.lanes, cut=cut)

    def _backwards(self) -> list[tuple[Stage, Shelf, bool]]:
        """From the last stage to the first layer, which is marked."""
        first = self._network.layers[0][0]
        places = range(len(self._network.stages) - 1, first - 1, -1)
        return [(self._network.stages[place], self._shelves[place], place == first) for place in places]


class GroupByGroup:
    """A few clients at a time, all in C: what one stage writes is still near when the next one reads it.

    The stages are called once, on a few clients that are nobody's, and the kernels they call are recorded. Raises
    `NotRecorded` where a stage computes anything else.
    """

    def __init__(self, network: Network, clients: int, slots: int, together: int) -> None:
        if not network.lanes:
            raise NotRecorded("no kernels")
        self._clients, self._together, self._passes = clients, together, StageByStage(network, together, slots)
        self._parameters, self._total = (torch.empty(together, network.layout.size) for _ in range(2))
        self._lanes, self._limit = network.lanes, np.empty(2, np.float32)
        self._batch = Batch(
            inputs=torch.empty(together, slots, *network.input_shape),
            labels=torch.empty(together, slots, dtype=torch.int64),
            weights=torch.empty(together, slots),
        )
        self._given = (self._parameters, self._batch.inputs, self._batch.labels, self._batch.weights)
        _ = self._plain, self._clipped  # what can't be recorded is said now

    def clipped(
        self, parameters: Tensor, batch: Batch, limit: Limit, total: Tensor
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The losses, and for each group norms and factors `[K, B]`; writes the sums of gradients times factors.

        Factors are 0 for padding, and for an example of which anything is not finite. Its gradient times zero is still
        not finite: the sum of that client is then not either.
        """
        program, losses, norms, factors = self._clipped
        self._limit[:] = limit.length, {"flat": 0, "layer": 1}[limit.by]
        program.run(self._clients, parameters, *_contiguous(batch), total)
        return losses, norms, factors

    def plain(self, parameters: Tensor, batch: Batch, total: Tensor) -> tuple[Tensor, list[Tensor | None]]:
        """As `StageByStage.plain`."""
        program, losses, bounds = self._plain
        program.run(self._clients, parameters, *_contiguous(batch), total)
        return losses, bounds

    @cached_property
    def _clipped(self) -> tuple[Program, Tensor, list[Tensor], list[Tensor]]:
        slots, limit, weights = self._batch.weights.shape[1], torch.from_numpy(self._limit), self._batch.weights
        first = ConvolutionShape.numbers((self._together, slots), 1)
        others = replace(first, relu=True)
        with recorded() as calls:
            losses, norms = self._passes.norms(self._parameters, self._batch)
            lengths, *factors = (torch.empty(self._together, slots) for _ in range(1 + len(norms)))
            for shape, own in zip([first, *[others] * len(norms)], norms, strict=False):
                shape.lengthen(lengths, own, self._lanes)
            for own, out in zip(norms, factors, strict=True):
                first.clip(own, lengths, weights, losses, limit, out, self._lanes)
            self._passes.collect(factors, self._total)
        lasting = Lasting(self._clients, self._together)
        losses, norms, factors = (
            lasting.keep(losses),
            [lasting.keep(each) for each in norms],
            [lasting.keep(each) for each in factors],
        )
        return Program(calls, (*self._given, self._total), lasting), losses, norms, factors

    @cached_property
    def _plain(self) -> tuple[Program, Tensor, list[Tensor | None]]:
        with recorded() as calls:
            losses, bounds = self._passes.plain(self._parameters, self._batch, self._total)
        lasting = Lasting(self._clients, self._together)
        kept = [None if each is None else lasting.keep(each) for each in bounds]
        losses = lasting.keep(losses)
        return Program(calls, (*self._given, self._total), lasting), losses, kept


def _contiguous(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    return batch.inputs.contiguous(), batch.labels.contiguous(), batch.weights.contiguous()
