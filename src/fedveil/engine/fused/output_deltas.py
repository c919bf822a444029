"""The losses of a batch and their derivatives by the network's outputs, where the way back through it begins."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedveil.core.objectives import CrossEntropy, Huber, Objective
from fedveil.engine.fused.workspace import Shelf
from fedveil.engine.gradients import Batch
from fedveil.native.small_layers import ConvolutionShape


def output_deltas(
    objective: Objective, outputs: Tensor, batch: Batch, shelf: Shelf, *, lanes: int, cut: bool
) -> tuple[Tensor, Tensor]:
    """Each example's loss `[K, B]` and its derivative by the outputs `[K, B, outputs]`, in memory of the shelf.

    Padding has no loss. Its derivative is zero with `cut`; else it may be anything, and a norm made of it must not
    count. With `lanes` classes are computed in C, where it is always zero.
    """
    if isinstance(objective, CrossEntropy) and lanes:
        return _in_c(objective, outputs.contiguous(), batch, shelf, lanes)
    present = batch.weights > 0
    labels = batch.labels * present  # padding may carry any label
    if isinstance(objective, CrossEntropy):
        losses, delta = _of_classes(outputs, labels.unsqueeze(-1), shelf)
        if objective.weights:
            scales = torch.tensor(objective.weights)[labels]
            losses, delta = losses.mul_(scales), delta.mul_(scales.unsqueeze(-1))
    else:
        losses, bent = _of_numbers(objective, outputs.squeeze(-1) - labels)
        delta = shelf.apart("delta", outputs[0].numel()).view(outputs.shape)
        delta.copy_(bent.unsqueeze(-1))
    if cut:
        delta.mul_(batch.weights.unsqueeze(-1))
    return torch.where(present, losses, 0.0), delta


def _in_c(objective: CrossEntropy, outputs: Tensor, batch: Batch, shelf: Shelf, lanes: int) -> tuple[Tensor, Tensor]:
    losses, delta = shelf.buffer("losses", shelf.slots), shelf.buffer("delta", *outputs.shape[1:])
    classes = outputs.shape[-1]
    shape = shelf.once("shape", lambda shelf: ConvolutionShape.numbers((shelf.clients, shelf.slots), classes))
    shares = None
    if objective.weights:
        shares = shelf.once("shares", lambda shelf: torch.from_numpy(np.array(objective.weights, np.float32)))
    labels, weights = batch.labels.contiguous(), batch.weights.contiguous()
    shape.classes(outputs, labels, weights, losses, delta, shares, lanes)
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


def _of_numbers(objective: Objective, errors: Tensor) -> tuple[Tensor, Tensor]:
    """The losses of errors, and their derivatives by them."""
    if isinstance(objective, Huber):
        bent = errors.clamp(-objective.width, objective.width)
        return bent * (errors - bent / 2), bent
    return errors.square(), errors * 2
