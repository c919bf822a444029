"""The whole network: forward, backward, norms, sums, and the rare case of numbers that are not finite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from fedveil.core.objectives import CROSS_ENTROPY, Objective
from fedveil.core.parameters import Layout
from fedveil.core.torch_warnings import without_torch_warnings
from fedveil.engine.general import has_random_layers
from fedveil.engine.gradients import Batch, Factors, Rows, Sums
from fedveil.engine.layered.contributions import Contribution, add_up
from fedveil.engine.layered.leaves import arrange
from fedveil.engine.layered.step import LeafStep
from fedveil.engine.whole_batches import WholeBatches


class Layered:
    """Gradients of a module whose parameters mostly sit in known leaves; implements `Gradients`.

    `Sums.total` lives in memory of this object: it is the caller's, to change too, until the next call of `sums`.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective = CROSS_ENTROPY,
        refused: Mapping[str, str] | None = None,
        contiguous: bool = False,
    ) -> None:
        self.layout = Layout.of(model)
        self.random = has_random_layers(model)
        self._objective = objective
        self._step = LeafStep(self.layout, contiguous)
        self._arranged = arrange(model, self._step, refused or {})
        self._groups = dict(zip(self.layout.names, self.layout.groups, strict=True))
        self._totals: dict[tuple[torch.Size, torch.dtype], Tensor] = {}
        self._forward = vmap(self._one, randomness="error")
        self._alone = WholeBatches(model, self.layout, objective, self.random)
        self._kept: int | None = None

    @property
    def has_leaves(self) -> bool:
        """Whether any trained parameter sits in a leaf."""
        return len(self._arranged.by_example) < len(self.layout.names)

    @property
    def goes_alone(self) -> bool:
        """Whether clients are computed one after another where nobody clips: nothing is gained side by side."""
        return self._arranged.slow

    @property
    def kept_floats(self) -> int:
        """Numbers that are kept of one example's gradient, as seen when the path was tried."""
        return self.layout.size if self._kept is None else self._kept

    @contextmanager
    def without_drawing(self) -> Iterator[None]:
        """Nothing random is drawn inside this block."""
        self._step.draws = False
        try:
            yield
        finally:
            self._step.draws = True

    @property
    def reasons(self) -> dict[str, str]:
        """Of each part whose gradients are taken example by example: why."""
        return self._arranged.reasons

    def _one(self, record: Tensor, anchor: Tensor, by_example: list[Tensor]) -> Tensor:
        """What the network says of one record."""
        arranged = self._arranged
        if by_example:
            named = dict(zip(arranged.by_example, by_example, strict=True))
            outputs = functional_call(arranged.network, named, (record.unsqueeze(0),))
        else:
            outputs = arranged.network(record.unsqueeze(0))
        return outputs.squeeze(0)  # type: ignore[no-any-return]

    def _differentiate(self, parameters: Tensor, batch: Batch, plain: Tensor | None) -> Tensor:
        """Each example's loss `[K, B]`; the leaves then have what they need, or have written their sums to `plain`."""
        step = self._step
        count, slots = batch.labels.shape
        with torch.enable_grad():
            anchor = step.begin(parameters, slots, batch.seeds, plain)
            by_example = [
                step.parameter(name).repeat_interleave(slots, dim=0).requires_grad_()
                for name in self._arranged.by_example
            ]
            with without_torch_warnings():
                outputs = self._forward(batch.inputs.flatten(0, 1), anchor, by_example)
            losses = self._objective.losses(outputs, batch.labels.flatten())
            loss = torch.where(batch.weights.flatten() > 0, losses, 0.0).sum()
            _, *rows = torch.autograd.grad(loss, [anchor, *by_example], allow_unused=True)
        for name, gradients in zip(self._arranged.by_example, rows, strict=True):
            if gradients is not None:
                step.receive_rows(name, gradients.reshape(count, slots, -1))
        return losses.detach().view(count, slots)

    @torch.no_grad()
    def sums(self, parameters: Tensor, batch: Batch, factors: Factors | None) -> Sums:
        if factors is None and (len(parameters) == 1 or self.goes_alone):
            alone = self._alone.sums(parameters, batch)
            if alone is not None and math.isfinite(float(torch.linalg.vector_norm(alone[0]) + alone[1].sum())):
                return Sums(*alone, None, torch.zeros(len(parameters), dtype=torch.int64, device=parameters.device))
        present, total = batch.weights > 0, self._total(parameters)
        if factors is None:
            losses = self._differentiate(parameters, batch, total)
            self._clear(total)
            summed = torch.where(present, losses, 0.0).sum(dim=-1)
            if math.isfinite(float(torch.linalg.vector_norm(total) + losses.sum())):
                return Sums(total, summed, None, torch.zeros(len(total), dtype=torch.int64, device=total.device))
        losses = self._differentiate(parameters, batch, None)
        found = self._step.contributions()
        if self._kept is None:
            self._kept = sum(each.floats() for contributions in found.values() for each in contributions)
        norms = self._norms(found, losses)
        counted, rejected = self._counted(found, norms, losses, present)
        norms = torch.where(counted.unsqueeze(-1), norms, 0.0)
        scales = torch.ones_like(norms) if factors is None else factors(norms)
        scales = torch.where(counted.unsqueeze(-1), scales, 0.0).permute(2, 0, 1).contiguous()
        self._clear(total)
        for name, contributions in found.items():
            for contribution in contributions:
                add_up(contribution, scales[self._groups[name]], self._step.view_of(total, name))
        shown = None if factors is None else norms
        return Sums(total, torch.where(counted, losses, 0.0).sum(dim=-1), shown, rejected)

    @torch.no_grad()
    def rows(self, parameters: Tensor, batch: Batch) -> Rows:
        losses = self._differentiate(parameters, batch, None)
        found = self._step.contributions()
        norms = self._norms(found, losses)
        counted, rejected = self._counted(found, norms, losses, batch.weights > 0)
        rows = parameters.new_zeros(*batch.labels.shape, self.layout.size)
        places = dict(zip(self.layout.names, zip(self.layout.offsets, self.layout.shapes, strict=False), strict=True))
        for name, contributions in found.items():
            start, shape = places[name]
            for contribution in contributions:
                first = 0 if contribution.part is None else contribution.part[0] * math.prod(shape[1:])
                own = contribution.rows()
                rows[..., start + first : start + first + own.shape[-1]] = own
        keep = counted.unsqueeze(-1)
        return Rows(
            torch.where(keep, rows, 0.0), torch.where(counted, losses, 0.0), torch.where(keep, norms, 0.0), rejected
        )

    def _total(self, parameters: Tensor) -> Tensor:
        key = (parameters.shape, parameters.dtype)
        if key not in self._totals:
            self._totals = {key: torch.empty(key[0], dtype=key[1], device=parameters.device)}
        return self._totals[key]

    def _clear(self, total: Tensor) -> None:
        for name in self._step.unwritten():
            self._step.view_of(total, name).zero_()

    def _norms(self, found: Mapping[str, Sequence[Contribution]], losses: Tensor) -> Tensor:
        """`[K, B, M]`: of each example's gradient, layer by layer."""
        lengths: list[list[Tensor]] = [[] for _ in range(self.layout.group_count)]
        for name, contributions in found.items():
            lengths[self._groups[name]] += [contribution.lengths() for contribution in contributions]
        norms = [_together(parts) if parts else torch.zeros_like(losses) for parts in lengths]
        return torch.stack(norms, dim=-1)

    def _counted(
        self, found: Mapping[str, Sequence[Contribution]], norms: Tensor, losses: Tensor, present: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Which examples count `[K, B]`, and how many of a client's do not though they are there `[K]`.

        What is not finite is made zero where it is kept: all else is then computed as ever.
        """
        if math.isfinite(float(norms.sum() + losses.sum())):
            return present, torch.zeros(len(present), dtype=torch.int64, device=present.device)
        finite = torch.isfinite(norms).all(dim=-1) & torch.isfinite(losses)
        for contributions in found.values():
            for contribution in contributions:
                contribution.drop(~finite)
        return finite & present, (present & ~finite).sum(dim=-1)


def _together(lengths: list[Tensor]) -> Tensor:
    """The length of a vector whose parts have these."""
    return lengths[0] if len(lengths) == 1 else torch.linalg.vector_norm(torch.stack(lengths), dim=0)
