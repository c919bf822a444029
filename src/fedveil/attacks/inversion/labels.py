"""Which labels the stolen records have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.func import functional_call

from fedveil.attacks.inversion.victims import Stolen
from fedveil.core.errors import FedveilError
from fedveil.core.objectives import CrossEntropy
from fedveil.core.types import View

PROBES = 64
"""Random inputs on which the model's average answer is measured."""


@dataclass(frozen=True)
class Analytic:
    """Read off the last layer: with cross-entropy its bias has the gradient p − onehot(label), negative at the label.

    Clipping a record's gradient shortens it and leaves the sign. For a batch the sum is Σp − (how often each class
    occurs); Σp is guessed from the model's answers to random inputs, and the classes are counted down from the largest
    remainder (iDLG for one record, label counts for several). Numbers can't be read off: they are found as by `Joint`.
    """

    kind: ClassVar[str] = "analytic"


@dataclass(frozen=True)
class Joint:
    """Soft labels, or numbers, are found together with the records (DLG)."""

    kind: ClassVar[str] = "joint"


@dataclass(frozen=True)
class Known:
    """The adversary is given the labels: what an attack could do if they were no secret."""

    kind: ClassVar[str] = "known"


Label = Analytic | Joint | Known


def recovered(stolen: Stolen) -> Tensor:
    """`[V, n]` classes of each victim's records, sorted."""
    facts, gradients = stolen.facts, stolen.tensors
    if stolen.view is not View.ON_DEVICE:  # an update goes downhill
        gradients = -gradients * facts.batch / (facts.rate * facts.steps)
    sums, features = _last_layer(stolen, gradients)
    records = facts.records if stolen.view is View.ON_DEVICE else facts.batch
    answers, feature = _answers(stolen, features)
    wanted = facts.records
    if wanted == 1:
        return (sums / feature).argmin(dim=1, keepdim=True)
    remaining = records * answers - sums / feature
    if isinstance(facts.objective, CrossEntropy) and facts.objective.weights:
        remaining = remaining / torch.tensor(facts.objective.weights)  # each record counts with its class's weight
    remaining = remaining * (wanted / records)
    classes = torch.zeros(len(sums), wanted, dtype=torch.int64)
    rows = torch.arange(len(sums))
    for place in range(wanted):
        classes[:, place] = remaining.argmax(dim=1)
        remaining[rows, classes[:, place]] -= 1
    return classes.sort(dim=1).values


def _last_layer(stolen: Stolen, gradients: Tensor) -> tuple[Tensor, bool]:
    """`[V, classes]`: the gradient of the last layer's bias or, without one, the row sums of its weights'."""
    layout, classes = stolen.facts.gradients.layout, stolen.facts.outputs
    named = layout.split(gradients)
    last = [name for name, _, group in layout if group == layout.group_count - 1]
    for name in last:
        if named[name].shape[1:] == (classes,) and bool((named[name] != 0).any(dim=1).all()):
            return named[name], False
    for name in last:
        if named[name].ndim == 3 and named[name].shape[1] == classes:
            return named[name].sum(dim=2), True
    raise FedveilError("label: the model does not end in a dense layer that names the classes; use label=joint")


def _answers(stolen: Stolen, features: bool) -> tuple[Tensor, float]:
    """The model's mean probabilities on random inputs, and the mean sum of its last features where they matter."""
    facts, model = stolen.facts, stolen.facts.model
    generator = torch.Generator().manual_seed(0)
    probes = torch.rand(PROBES, *facts.input_shape, generator=generator)
    named = facts.gradients.layout.split(stolen.start)
    seen: list[Tensor] = []
    dense = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    handle = dense[-1].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])) if dense else None
    try:
        with torch.no_grad():
            logits = functional_call(model, named, (probes,))
    finally:
        if handle is not None:
            handle.remove()
    total = float(seen[-1].sum(dim=1).mean()) if features and seen else 1.0
    return torch.softmax(logits, dim=1).mean(dim=0), total if abs(total) > 1e-6 else 1.0
