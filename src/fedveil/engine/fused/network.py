"""The whole network: forward, loss, backward, and the rare case of numbers that are not finite."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from fedveil.core.objectives import CROSS_ENTROPY, Objective
from fedveil.core.parameters import Layout
from fedveil.engine.fused.build import Unknown, stages_of
from fedveil.engine.fused.output_deltas import output_deltas
from fedveil.engine.fused.stages import Layer, Stage
from fedveil.engine.fused.workspace import Shelf, Workspace
from fedveil.engine.gradients import Batch, Factors, Rows, Sums

_WORKING_SET = 9 << 20
_MOST_CLIENTS = 64


class Fused:
    """Gradients of a stack of known layers; implements `Gradients`.

    `Sums.total` lives in memory of this object: it is the caller's, to change too, until the next call of
    `sums`. An example whose loss or gradient norm is not finite is rejected: gradient, loss and norms are 0.
    """

    random = False

    def __init__(self, layout: Layout, stages: list[Stage], objective: Objective) -> None:
        self.layout = layout
        self._objective = objective
        self._stages = stages
        self._first_layer = next(i for i, stage in enumerate(stages) if isinstance(stage, Layer))
        self._workspace = Workspace(len(stages))

    @staticmethod
    def build(
        model: nn.Module,
        input_shape: tuple[int, ...],
        objective: Objective = CROSS_ENTROPY,
        lanes: int | None = None,
    ) -> Fused | None:
        """None where the model has a part this path does not know; the caller then takes the general path.

        `lanes` is for convolutions in C (`stages_of`).
        """
        layout = Layout.of(model)
        try:
            return Fused(layout, stages_of(model, layout, input_shape, lanes), objective)
        except Unknown:
            return None

    def recommended_clients(self, batch: int, *, noised: bool = False) -> int:
        """How many clients to compute at once, from the memory one client's step touches.

        The fixed cost of a call (some hundred operations, whatever their size) is worth spreading over more
        clients than fit into a core's own cache; beyond some nine megabytes it no longer is (measured on an idle
        machine, from ten thousand to a million parameters). Where sums are `noised` a call has twice the operations,
        and drawing takes longer than fetching what it is added to: there the parameters count once, not three times.
        """
        vectors = 1 if noised else 3
        numbers = vectors * self.layout.size + batch * sum(stage.floats(batch) for stage in self._stages)
        return max(1, min(_MOST_CLIENTS, _WORKING_SET // (4 * numbers)))

    @torch.no_grad()
    def sums(self, parameters: Tensor, batch: Batch, factors: Factors | None) -> Sums:
        shelves = self._workspace.shelves(*batch.labels.shape)
        parameters = parameters.contiguous()  # in a first step one model for all: copied here once, not by every layer
        losses, delta = self._forward(parameters, batch, shelves)
        total = shelves[-1].buffer("total", self.layout.size)
        if factors is None:
            return self._plain_sums(parameters, batch, shelves, losses, delta, total)
        norms = self._measure(parameters, delta, shelves)
        present = batch.weights > 0
        doubtful, counted, whole = None, present, bool(present.all())
        if not math.isfinite(float(norms.sum() + losses.sum())):
            finite, whole = _finite(norms, losses), False
            doubtful, counted = _clients_with_any(~finite), finite & present
        if not whole:
            norms, losses = torch.where(counted.unsqueeze(-1), norms, 0.0), torch.where(counted, losses, 0.0)
        scales = factors(norms) * torch.where(counted, batch.weights, 0.0).unsqueeze(-1)
        by_group = scales.permute(2, 0, 1).contiguous()
        for stage, shelf in zip(self._stages, shelves, strict=False):
            if isinstance(stage, Layer):
                stage.collect(by_group[stage.group], total, shelf)
        if doubtful is not None:
            rows = self.rows(parameters[doubtful], _pick(batch, doubtful)).rows
            total[doubtful] = self._weighted(rows, scales[doubtful])
        rejected = (present & ~counted).sum(dim=-1)
        return Sums(total, losses.sum(dim=-1), norms, rejected)

    def _plain_sums(
        self,
        parameters: Tensor,
        batch: Batch,
        shelves: list[Shelf],
        losses: Tensor,
        delta: Tensor,
        total: Tensor,
    ) -> Sums:
        """The sum without clipping. Per client, bounds of its parts tell whether anything in it was not finite."""
        delta.mul_(batch.weights.unsqueeze(-1))
        sizes = losses.sum(dim=-1)
        for index in range(len(self._stages) - 1, self._first_layer - 1, -1):
            stage, shelf = self._stages[index], shelves[index]
            if isinstance(stage, Layer):
                bounds = stage.accumulate(delta, total, shelf)
                if bounds is None:
                    bounds = torch.linalg.vector_norm(total[:, self.layout.group_slices[stage.group]], dim=-1)
                sizes += bounds
            if index > self._first_layer:
                delta = stage.backward(delta, parameters, shelf)
        summed = torch.where(batch.weights > 0, losses, 0.0).sum(dim=-1)
        rejected = torch.zeros_like(summed, dtype=torch.int64)
        doubtful = _clients_with_any(~torch.isfinite(sizes).unsqueeze(-1))
        if doubtful is not None:
            some = _pick(batch, doubtful)
            outcome = self.rows(parameters[doubtful], some)
            scales = some.weights.unsqueeze(-1).expand(-1, -1, self.layout.group_count)
            total[doubtful] = self._weighted(outcome.rows, scales)
            summed[doubtful] = outcome.losses.sum(dim=-1)
            rejected[doubtful] = outcome.rejected
        return Sums(total, summed, None, rejected)

    @torch.no_grad()
    def rows(self, parameters: Tensor, batch: Batch) -> Rows:
        shelves = self._workspace.shelves(*batch.labels.shape)
        parameters = parameters.contiguous()
        losses, delta = self._forward(parameters, batch, shelves)
        norms = self._measure(parameters, delta, shelves)
        rows = torch.empty(*batch.labels.shape, self.layout.size)
        for stage, shelf in zip(self._stages, shelves, strict=False):
            if isinstance(stage, Layer):
                stage.rows(rows, shelf)
        present = batch.weights > 0
        counted = _finite(norms, losses) & present
        shown = counted.unsqueeze(-1)
        return Rows(
            rows=torch.where(shown, rows, 0.0),
            losses=torch.where(counted, losses, 0.0),
            norms=torch.where(shown, norms, 0.0),
            rejected=(present & ~counted).sum(dim=-1),
        )

    def _forward(self, parameters: Tensor, batch: Batch, shelves: list[Shelf]) -> tuple[Tensor, Tensor]:
        """Each example's loss `[K, B]` and its derivative by the outputs `[K, B, outputs]`."""
        outputs = batch.inputs.contiguous()
        for stage, shelf in zip(self._stages, shelves, strict=False):
            outputs = stage.forward(outputs, parameters, shelf)
        return output_deltas(self._objective, outputs, batch, shelves[-1])

    def _measure(self, parameters: Tensor, delta: Tensor, shelves: list[Shelf]) -> Tensor:
        """The backward pass; returns the norms `[K, B, M]` of each example's gradient, layer by layer."""
        norms = torch.empty(*delta.shape[:2], self.layout.group_count)
        for index in range(len(self._stages) - 1, self._first_layer - 1, -1):
            stage, shelf = self._stages[index], shelves[index]
            if isinstance(stage, Layer):
                norms[:, :, stage.group] = stage.measure(delta, shelf)
            if index > self._first_layer:
                delta = stage.backward(delta, parameters, shelf)
        return norms

    def _weighted(self, rows: Tensor, scales: Tensor) -> Tensor:
        """Sum over the batch of rows `[K, B, P]`, each layer times its scale `[K, B, M]`."""
        by_group = scales.permute(2, 0, 1).contiguous()
        parts = [
            torch.bmm(factors.unsqueeze(1), rows[:, :, where]).squeeze(1)
            for factors, where in zip(by_group, self.layout.group_slices, strict=True)
        ]
        return torch.cat(parts, dim=-1)


def _clients_with_any(marks: Tensor) -> Tensor | None:
    """The indices of the clients with a mark in `[K, B]`, or None if there is not a single one."""
    return marks.any(dim=-1).nonzero().squeeze(-1) if bool(marks.any()) else None


def _pick(batch: Batch, clients: Tensor) -> Batch:
    return Batch(batch.inputs[clients], batch.labels[clients], batch.weights[clients])


def _finite(norms: Tensor, losses: Tensor) -> Tensor:
    """`[K, B]`: the examples with finite norms in all layers and a finite loss."""
    return torch.isfinite(norms).all(dim=-1) & torch.isfinite(losses)
