"""The whole network: forward, loss, backward, and the rare case of numbers that are not finite."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedveil.core.objectives import CROSS_ENTROPY, Objective
from fedveil.core.parameters import Layout
from fedveil.engine.fused.build import Unknown, stages_of
from fedveil.engine.fused.through_stages import GroupByGroup, Network, StageByStage
from fedveil.engine.fused.workspace import Recent
from fedveil.engine.gradients import Batch, Factors, Rows, Sums, WatchedLimit
from fedveil.native.calls import VECTOR_WIDTHS, NotRecorded

_WORKING_SET = 9 << 20
"""Bytes that all cores' common cache holds for one of them, about: what is larger is fetched anew in every step."""

_NEAR = 1 << 20
"""Bytes that a core's own cache holds, about."""

_MOST_CLIENTS = 64
"""Clients at once."""


class Fused:
    """Gradients of a stack of known layers; implements `Gradients`.

    `Sums.total` lives in memory of this object: it is the caller's, to change too, until the next call of
    `sums`. An example whose loss or gradient norm is not finite is rejected: gradient, loss and norms are 0.
    """

    random = False

    def __init__(self, network: Network) -> None:
        self.layout, self._network = network.layout, network
        self._by_stage = Recent(lambda clients, slots: StageByStage(network, clients, slots))
        self._passes: Recent[StageByStage | GroupByGroup] = Recent(self._make_passes)
        self._recordable: dict[int, bool] = {}  # by slots
        self._totals = Recent(lambda clients, _: torch.empty(clients, network.layout.size))

    @staticmethod
    def build(
        model: nn.Module,
        input_shape: tuple[int, ...],
        objective: Objective = CROSS_ENTROPY,
        lanes: int | None = None,
    ) -> Fused | None:
        """None where the model has a part this path does not know; the caller then takes the general path.

        Layers are computed in C on vectors of `lanes` floats, by default the widest that this machine has; in PyTorch
        where there are none, or with `lanes` = 0.
        """
        if lanes is None:
            lanes = VECTOR_WIDTHS[0] if VECTOR_WIDTHS else 0
        layout = Layout.of(model)
        try:
            stages = stages_of(model, layout, input_shape, lanes)
        except Unknown:
            return None
        return Fused(Network(layout, tuple(stages), objective, input_shape, lanes))

    def recommended_clients(self, batch: int, *, noised: bool = False) -> int:
        """How many clients to compute at once, from the memory that one client's step touches.

        The fixed cost of a step (some hundred operations, whatever their size) is worth spreading over many clients.
        Their parameters and sums have to stay in the common cache, three vectors for each; where sums are `noised`
        drawing takes longer than fetching what it is added to, and one counts. Where a few clients at a time go through
        all stages nothing else needs room there (measured, from ten thousand to a million parameters).
        """
        own = 4 * self.layout.size * (1 if noised else 3)
        examples = 0 if self._in_groups(batch) else 4 * self._floats(batch)
        return max(1, min(_MOST_CLIENTS, _WORKING_SET // (own + examples)))

    def _floats(self, slots: int) -> int:
        return slots * sum(stage.floats(slots) for stage in self._network.stages)

    def _in_groups(self, slots: int) -> bool:
        """Whether clients with so many slots can go through all stages a few at a time."""
        if slots not in self._recordable:
            self._recordable[slots] = isinstance(self._make_passes(1, slots), GroupByGroup)
        return self._recordable[slots]

    def _make_passes(self, clients: int, slots: int) -> StageByStage | GroupByGroup:
        together = max(1, min(clients, _NEAR // (4 * self._floats(slots))))
        try:
            return GroupByGroup(self._network, clients, slots, together)
        except NotRecorded:
            return self._by_stage.of(clients, slots)

    @torch.no_grad()
    def sums(self, parameters: Tensor, batch: Batch, factors: Factors | None) -> Sums:
        passes, total = self._passes.of(*batch.labels.shape), self._totals.of(*batch.labels.shape)
        parameters = parameters.contiguous()  # in a first step one model for all
        if factors is None:
            return self._plain_sums(passes, parameters, batch, total)
        if isinstance(passes, GroupByGroup) and isinstance(factors, WatchedLimit):
            losses, by_group, used = passes.clipped(parameters, batch, factors.limit, total)
            found, scales = _Found.of(losses, by_group, batch), torch.stack(used, dim=-1)
            factors.watch(found.norms, scales)
        else:
            stages = self._by_stage.of(*batch.labels.shape)
            found = _Found.of(*stages.norms(parameters, batch), batch)
            scales = factors(found.norms) * found.counted
            stages.collect(scales.permute(2, 0, 1).contiguous().unbind(0), total)
        if found.doubtful is not None:
            rows = self.rows(parameters[found.doubtful], _pick(batch, found.doubtful)).rows
            total[found.doubtful] = self._weighted(rows, scales[found.doubtful])
        return Sums(total, found.losses.sum(dim=-1), found.norms, found.rejected)

    def _plain_sums(self, passes: StageByStage | GroupByGroup, parameters: Tensor, batch: Batch, total: Tensor) -> Sums:
        """The sum without clipping. Per client, bounds of its parts tell whether anything in it was not finite."""
        losses, bounds = passes.plain(parameters, batch, total)
        summed = losses.sum(dim=-1)
        sizes = summed.clone()
        for part, norms in zip(self.layout.group_slices, bounds, strict=True):
            sizes += torch.linalg.vector_norm(total[:, part], dim=-1) if norms is None else norms.sum(dim=-1)
        rejected = torch.zeros(len(losses), dtype=torch.int64)
        if not math.isfinite(float(sizes.sum())):
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
        passes = self._by_stage.of(*batch.labels.shape)
        losses, by_group = passes.norms(parameters.contiguous(), batch)
        norms = torch.stack(by_group, dim=-1)
        rows = torch.empty(*batch.labels.shape, self.layout.size)
        passes.rows(rows)
        present = batch.weights > 0
        counted = _finite(norms, losses) & present
        shown = counted.unsqueeze(-1)
        return Rows(
            rows=torch.where(shown, rows, 0.0),
            losses=torch.where(counted, losses, 0.0),
            norms=torch.where(shown, norms, 0.0),
            rejected=(present & ~counted).sum(dim=-1),
        )

    def _weighted(self, rows: Tensor, scales: Tensor) -> Tensor:
        """Sum over the batch of rows `[K, B, P]`, each layer times its scale `[K, B, M]`."""
        by_group = scales.permute(2, 0, 1).contiguous()
        parts = [
            torch.bmm(factors.unsqueeze(1), rows[:, :, where]).squeeze(1)
            for factors, where in zip(by_group, self.layout.group_slices, strict=True)
        ]
        return torch.cat(parts, dim=-1)


@dataclass(frozen=True)
class _Found:
    """What a pass said of the examples, with zeros for padding and for what is not finite."""

    losses: Tensor  # [K, B]
    norms: Tensor  # [K, B, M]
    counted: Tensor  # [K, B, 1]: 1 for an example that counts, else 0
    doubtful: Tensor | None  # clients whose sums may not be finite
    rejected: Tensor  # [K]

    @staticmethod
    def of(losses: Tensor, by_group: list[Tensor], batch: Batch) -> _Found:
        weights, rejected = batch.weights.unsqueeze(-1), torch.zeros(len(losses), dtype=torch.int64)
        norms = torch.stack(by_group, dim=-1).mul_(weights)
        if math.isfinite(float(norms.sum() + losses.sum())):
            return _Found(losses, norms, weights, None, rejected)
        finite, present = _finite(norms, losses), batch.weights > 0
        counted = torch.where(finite, batch.weights, 0.0).unsqueeze(-1)
        norms = torch.where(counted > 0, norms, 0.0)
        losses = torch.where(counted.squeeze(-1) > 0, losses, 0.0)
        rejected = (present & ~finite).sum(dim=-1)
        return _Found(losses, norms, counted, _clients_with_any(~finite), rejected)


def _clients_with_any(marks: Tensor) -> Tensor | None:
    """The indices of the clients with a mark in `[K, B]`, or None if there is not a single one."""
    return marks.any(dim=-1).nonzero().squeeze(-1) if bool(marks.any()) else None


def _pick(batch: Batch, clients: Tensor) -> Batch:
    return Batch(batch.inputs[clients], batch.labels[clients], batch.weights[clients])


def _finite(norms: Tensor, losses: Tensor) -> Tensor:
    """`[K, B]`: the examples with finite norms in all layers and a finite loss."""
    return torch.isfinite(norms).all(dim=-1) & torch.isfinite(losses)
