"""What a training makes small: the loss of one example, by the model's outputs and the example's label.

Weights of classes, and the width of Huber's loss, are public constants that a spec states. They scale one example's
loss and so its gradient, before that is clipped: what an example can change is bounded by the clip with any objective,
and no ε depends on it. Weights that were counted from private labels would be private themselves, so none are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedveil.core.checks import positive
from fedveil.core.deferred import torch
from fedveil.core.errors import FedveilError
from fedveil.core.tasks import Regression, Task

if TYPE_CHECKING:
    from torch import Tensor

FAR_FROM_A_CLASS = 1e4
"""A constant guess among a million classes has a mean cross-entropy of 14; far beyond it nothing is learned."""

FAR_FROM_A_NUMBER = 10.0
"""Labels lie in [−1, 1], so a guess within the public range errs by at most 2; nothing is learned where errors are ten,
five times the width of that range."""


@dataclass(frozen=True)
class CrossEntropy:
    """−log of the probability of the right class, times the weight of that class where weights are given."""

    kind: ClassVar[str] = "cross-entropy"
    of_numbers: ClassVar[bool] = False
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for weight in self.weights:
            positive("weights", weight)

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """`[N]` from outputs `[N, classes]` and labels `[N]`, or distributions over the classes `[N, classes]`."""
        device, dtype = outputs.device, outputs.dtype
        weight = torch.tensor(self.weights, device=device, dtype=dtype) if self.weights else None
        return torch.nn.functional.cross_entropy(outputs, labels, weight, reduction="none")

    @property
    def out_of_bounds(self) -> float:
        """A mean loss above this says that the training has left all bounds."""
        return FAR_FROM_A_CLASS * max(self.weights, default=1.0)


@dataclass(frozen=True)
class SquaredError:
    """(output − label)², the label scaled to [−1, 1]."""

    kind: ClassVar[str] = "squared"
    of_numbers: ClassVar[bool] = True

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """`[N]` from outputs `[N, 1]` and labels `[N]`."""
        return torch.nn.functional.mse_loss(outputs.squeeze(-1), labels.to(outputs.dtype), reduction="none")

    @property
    def out_of_bounds(self) -> float:
        """A mean loss above this says that the training has left all bounds."""
        return FAR_FROM_A_NUMBER**2


@dataclass(frozen=True)
class Huber:
    """Half the squared error up to `width`, straight beyond: an outlier pulls no harder than one at the width.

    The label is scaled to [−1, 1], and so is the width: 1 is half the public range.
    """

    kind: ClassVar[str] = "huber"
    of_numbers: ClassVar[bool] = True
    width: float = 1.0

    def __post_init__(self) -> None:
        positive("width", self.width)

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """`[N]` from outputs `[N, 1]` and labels `[N]`."""
        return torch.nn.functional.huber_loss(
            outputs.squeeze(-1), labels.to(outputs.dtype), reduction="none", delta=self.width
        )

    @property
    def out_of_bounds(self) -> float:
        """A mean loss above this says that the training has left all bounds."""
        bend = min(self.width, FAR_FROM_A_NUMBER)
        return bend * (FAR_FROM_A_NUMBER - bend / 2)


Objective = CrossEntropy | SquaredError | Huber
CROSS_ENTROPY = CrossEntropy()


def objective_for(task: Task, asked: Objective | None = None) -> Objective:
    """The objective that was asked for, if it fits the task; else the task's own: cross-entropy, or squared error."""
    numbers = isinstance(task, Regression)
    if asked is None:
        return SquaredError() if numbers else CROSS_ENTROPY
    if asked.of_numbers != numbers:
        what = "a number" if numbers else f"one of {task.outputs} classes"
        fitting = f"{SquaredError.kind} or {Huber.kind}" if numbers else CrossEntropy.kind
        raise FedveilError(f"objective.kind: {asked.kind} does not fit labels that are {what}; use {fitting}")
    if isinstance(asked, CrossEntropy) and asked.weights and len(asked.weights) != task.outputs:
        raise FedveilError(f"objective.weights: {len(asked.weights)} weights for {task.outputs} classes")
    return asked
