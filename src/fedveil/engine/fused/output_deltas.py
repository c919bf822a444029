"""The losses of a batch and their derivatives by the network's outputs, where the way back through it begins."""

from __future__ import annotations

import torch
from torch import Tensor

from fedveil.core.objectives import CrossEntropy, Huber, Objective
from fedveil.engine.fused.workspace import Shelf
from fedveil.engine.gradients import Batch


def output_deltas(objective: Objective, outputs: Tensor, batch: Batch, shelf: Shelf) -> tuple[Tensor, Tensor]:
    """Each example's loss `[K, B]` and its derivative by the outputs `[K, B, outputs]`, in memory of the shelf."""
    labels = batch.labels * (batch.weights > 0)  # padding may carry any label
    if isinstance(objective, CrossEntropy):
        losses, delta = _of_classes(outputs, labels.unsqueeze(-1), shelf)
        if objective.weights:
            scales = torch.tensor(objective.weights)[labels]
            losses, delta = losses.mul_(scales), delta.mul_(scales.unsqueeze(-1))
        return losses, delta
    errors = outputs.squeeze(-1) - labels
    if isinstance(objective, Huber):
        bent = errors.clamp(-objective.width, objective.width)
        losses = bent * (errors - bent / 2)
    else:
        bent, losses = errors * 2, errors.square()
    delta = shelf.apart("delta", outputs[0].numel()).view(outputs.shape)
    delta.copy_(bent.unsqueeze(-1))
    return losses, delta


def _of_classes(outputs: Tensor, labels: Tensor, shelf: Shelf) -> tuple[Tensor, Tensor]:
    """Cross-entropy: −log p of the label `[K, B, 1]`, whose derivative is p − onehot(label)."""
    logs = torch.log_softmax(outputs, dim=-1)
    losses = logs.gather(-1, labels).squeeze(-1).neg_()
    delta = shelf.apart("delta", logs[0].numel())
    torch.exp(logs.flatten(start_dim=1), out=delta)
    delta = delta.view(logs.shape)
    delta.scatter_add_(-1, labels, torch.full_like(losses, -1.0).unsqueeze(-1))
    return losses, delta
