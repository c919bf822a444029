"""The reference: one client after another, one example after another, ordinary autograd. Slow and obvious."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedveil.core.objectives import CROSS_ENTROPY, Objective
from fedveil.core.parameters import Layout
from fedveil.engine.general import finite_rows, has_random_layers, sum_rows
from fedveil.engine.gradients import Batch, Factors, Rows, Sums


class Plain:
    """What the vectorised implementations are compared with."""

    def __init__(self, model: nn.Module, objective: Objective = CROSS_ENTROPY) -> None:
        self.layout = Layout.of(model)
        self._objective = objective
        self._model = model.train()
        self.random = has_random_layers(model)

    def rows(self, parameters: Tensor, batch: Batch) -> Rows:
        count, slots = batch.labels.shape
        rows = torch.zeros(count, slots, self.layout.size, device=parameters.device)
        losses = torch.zeros(count, slots, device=parameters.device)
        for client in range(count):
            for slot in range(slots):
                rows[client, slot], losses[client, slot] = self._gradient(
                    parameters[client], batch.inputs[client, slot], batch.labels[client, slot]
                )
        return finite_rows(rows, losses, batch.weights, self.layout)

    def sums(self, parameters: Tensor, batch: Batch, factors: Factors | None) -> Sums:
        return sum_rows(self.rows(parameters, batch), factors, self.layout)

    def _gradient(self, parameters: Tensor, record: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = parameters.detach().clone().requires_grad_(True)
            outputs = functional_call(self._model, self.layout.split(leaf), (record.unsqueeze(0),))
            (loss,) = self._objective.losses(outputs, label.unsqueeze(0))
            (gradient,) = torch.autograd.grad(loss, leaf)
        return gradient, loss.detach()
