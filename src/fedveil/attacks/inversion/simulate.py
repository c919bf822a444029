"""What a view would show if the records were these: the client's own functions, without the noise."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from fedveil.attacks.inversion.victims import Facts
from fedveil.core.types import Declaration, View
from fedveil.engine.client import local_steps
from fedveil.engine.general import group_norms, scale_rows
from fedveil.engine.gradients import Batch, Factors, Rows, Sums
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.schedules import Constant


def predicted(facts: Facts, view: View, start: Tensor, inputs: Tensor, labels: Tensor) -> Tensor:
    """The gradient or update `[V, P]` of records `[V, n, *shape]`, differentiable in them and in soft labels.

    `labels` are classes `[V, n]` or distributions over them `[V, n, classes]`.
    """
    return _row(facts, start, inputs, labels) if view is View.ON_DEVICE else _update(facts, start, inputs, labels)


def _row(facts: Facts, start: Tensor, inputs: Tensor, labels: Tensor) -> Tensor:
    """One example's clipped gradient: the sum over a batch of one."""
    return facts.gradients.sums(start.expand(len(inputs), -1), _batch(inputs, labels), _example_factors(facts)).total


def _update(facts: Facts, start: Tensor, inputs: Tensor, labels: Tensor) -> Tensor:
    gradients, factors, size = facts.gradients, _example_factors(facts), facts.batch

    def summed(step: int, parameters: Tensor) -> Sums:
        part = slice(None) if facts.records == size else slice(step * size, (step + 1) * size)
        return gradients.sums(parameters, _batch(inputs[:, part], labels[:, part]), factors)

    begin = start.expand(len(inputs), -1)
    layers = gradients.layout.group_count
    end, _ = local_steps(
        facts.method.local, begin, facts.steps, summed, rate=facts.rate, declared=facts.batch, layers=layers
    )
    return _clipped_update(facts, end - begin)


def _batch(inputs: Tensor, labels: Tensor) -> Batch:
    return Batch(inputs, labels, torch.ones(inputs.shape[:2]))


def _example_factors(facts: Facts) -> Factors | None:
    """The clip of single examples, if any."""
    for declared in facts.declared:
        if declared.place == "example":
            return _factors(declared, facts.gradients.layout.group_count)
    return None


def _clipped_update(facts: Facts, updates: Tensor) -> Tensor:
    """Clipped as the client clips before it sends (what is clipped at the server is seen as it was)."""
    layout = facts.gradients.layout
    for declared in facts.declared:
        if declared.place not in ("example", "server"):
            norms = group_norms(updates, layout)[:, None]
            rows = Rows(updates[:, None], updates.new_zeros(len(updates), 1), norms, torch.zeros(len(updates)))
            updates = scale_rows(rows, _factors(declared, layout.group_count), layout)[:, 0]
    return updates


def _factors(declared: Declaration, layers: int) -> Factors:
    """The clip behind a declaration: one bound for the whole row, or one for each of its layers."""
    by = "layer" if layers > 1 and declared.sensitivity > 1.0001 * declared.bound else "flat"
    return partial(Clip(Constant(declared.bound), by=by).factors, bound=declared.bound)
