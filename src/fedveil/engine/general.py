"""Gradients of any module that `torch.func` can vectorise: one `vmap` over clients, one over examples."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from fedveil.core.errors import FedveilError
from fedveil.core.norms import lengths
from fedveil.core.objectives import CROSS_ENTROPY, Objective
from fedveil.core.parameters import Layout
from fedveil.core.torch_warnings import without_torch_warnings
from fedveil.engine.gradients import Batch, Factors, Rows, Sums, client_part
from fedveil.engine.whole_batches import WholeBatches


class General:
    """Works for any module with no state of its own; slower than `Fused` for the layers that one knows."""

    def __init__(self, model: nn.Module, objective: Objective = CROSS_ENTROPY, because: str = "") -> None:
        self.layout = Layout.of(model)
        self.because = because  # of what the layered path could not take it
        self._objective = objective
        self._model = model.train()
        self._rest = {name: p.detach() for name, p in model.named_parameters() if not p.requires_grad}
        self._rest.update({name: b.detach() for name, b in model.named_buffers()})
        self.random = has_random_layers(model)
        self._whole = WholeBatches(model, self.layout, objective, self.random)
        one_example = grad_and_value(self._loss)
        self._vectorised = vmap(vmap(one_example, in_dims=(None, 0, 0), randomness="different"), randomness="different")

    def _loss(self, parameters: dict[str, Tensor], record: Tensor, label: Tensor) -> Tensor:
        outputs = functional_call(self._model, {**parameters, **self._rest}, (record.unsqueeze(0),))
        return self._objective.losses(outputs, label.unsqueeze(0)).squeeze(0)

    def rows(self, parameters: Tensor, batch: Batch) -> Rows:
        gradients, losses = self._gradients(parameters, batch)
        rows = self.layout.join(gradients, batch_dims=2)
        return finite_rows(rows, losses, batch.weights, self.layout)

    def sums(self, parameters: Tensor, batch: Batch, factors: Factors | None) -> Sums:
        if factors is None and not torch.is_grad_enabled():  # an attack differentiates through the rows
            plain = self._plain_sums(parameters, batch)
            if plain is not None:
                return plain
        return sum_rows(self.rows(parameters, batch), factors, self.layout)

    def _plain_sums(self, parameters: Tensor, batch: Batch) -> Sums | None:
        """Without a gradient for every example; clients with anything that is not finite are computed by rows."""
        made = self._whole.sums(parameters, batch)
        if made is None:
            return None
        total, losses = made
        rejected = torch.zeros(len(total), dtype=torch.int64)
        doubtful = ~torch.isfinite(torch.linalg.vector_norm(total, dim=-1) + losses)
        for k in doubtful.nonzero().flatten().tolist():
            exact = sum_rows(self.rows(parameters[k : k + 1], client_part(batch, slice(k, k + 1))), None, self.layout)
            total[k], losses[k], rejected[k] = exact.total[0], exact.losses[0], exact.rejected[0]
        return Sums(total, losses, None, rejected)

    def _gradients(self, parameters: Tensor, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        if not self.random:
            return self._call(parameters, batch.inputs, batch.labels)
        # Random layers draw from torch's global generator: one client at a time, so that a client's draws do not
        # depend on who else is in the chunk.
        seeds = batch.seeds or [0] * len(parameters)
        parts: list[tuple[dict[str, Tensor], Tensor]] = []
        with torch.random.fork_rng(devices=[]):
            for k, seed in enumerate(seeds):
                torch.manual_seed(seed)
                parts.append(self._call(parameters[k : k + 1], batch.inputs[k : k + 1], batch.labels[k : k + 1]))
        gradients = {name: torch.cat([part[0][name] for part in parts]) for name in self.layout.names}
        return gradients, torch.cat([part[1] for part in parts])

    def _call(self, parameters: Tensor, inputs: Tensor, labels: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        try:
            with without_torch_warnings():
                gradients, losses = self._vectorised(self.layout.split(parameters), inputs, labels)
        except RuntimeError as error:
            if "vmap" in str(error):
                reason = str(error).splitlines()[0]
                raise FedveilError(f"model: it can't be vectorised over clients and examples: {reason}") from error
            raise
        return gradients, losses


def has_random_layers(model: nn.Module) -> bool:
    """Dropout of any kind: something that draws while training."""
    rates = (
        getattr(module, "p", None)
        if isinstance(module, nn.modules.dropout._DropoutNd)
        else getattr(module, "dropout", None)
        for module in model.modules()
    )
    return any(isinstance(rate, float) and rate > 0 for rate in rates)


def group_norms(rows: Tensor, layout: Layout) -> Tensor:
    """L2 norms `[..., M]` of the layers of rows `[..., P]`."""
    return torch.stack([lengths(rows[..., part]) for part in layout.group_slices], dim=-1)


def finite_rows(rows: Tensor, losses: Tensor, weights: Tensor, layout: Layout) -> Rows:
    """Zero what is padding and what is not finite, and count the latter."""
    norms = group_norms(rows, layout)
    finite = torch.isfinite(norms).all(dim=-1) & torch.isfinite(losses)
    present = weights > 0
    keep = finite & present
    zero = rows.new_zeros(())
    return Rows(
        rows=torch.where(keep.unsqueeze(-1), rows, zero),
        losses=torch.where(keep, losses, zero),
        norms=torch.where(keep.unsqueeze(-1), norms, zero),
        rejected=(present & ~finite).sum(dim=-1),
    )


def sum_rows(rows: Rows, factors: Factors | None, layout: Layout) -> Sums:
    """Scale each row, layer by layer, and sum over the batch."""
    if factors is None:
        return Sums(rows.rows.sum(dim=1), rows.losses.sum(dim=-1), None, rows.rejected)
    return Sums(scale_rows(rows, factors, layout).sum(dim=1), rows.losses.sum(dim=-1), rows.norms, rows.rejected)


def scale_rows(rows: Rows, factors: Factors, layout: Layout) -> Tensor:
    """Each row `[K, B, P]` multiplied, layer by layer, with its factor."""
    factor = factors(rows.norms)
    parts = [rows.rows[..., part] * factor[..., m, None] for m, part in enumerate(layout.group_slices)]
    return torch.cat(parts, dim=-1)
