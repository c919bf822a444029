"""Records in memory, and what they must be for a training."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedveil.core.deferred import torch
from fedveil.core.errors import FedveilError
from fedveil.core.tasks import Regression, Task
from fedveil.data.dealing import Integers

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs [N, …], uint8 for pictures (a quarter of the memory of floats), int64 for tokens or float32; labels [N].

    A label is the index of a class (int64) or a number that the task's public range scales to [−1, 1] (float32).
    """

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def on(self, device: torch.device) -> Examples:
        return Examples(self.inputs.to(device), self.labels.to(device))

    def pick(self, rows: slice | Integers | list[int]) -> Examples:
        return Examples(self.inputs[rows], self.labels[rows])


def examples_digest(*parts: Examples) -> str:
    """A hash of records, which tells them from others. Whoever can guess records can check the guess."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        for tensor in (part.inputs, part.labels):
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


def to_float(inputs: Tensor) -> Tensor:
    """What a model is fed: pictures scaled to [0, 1] when a batch is made, numbers and tokens unchanged."""
    return inputs.to(torch.float32) / 255 if inputs.dtype == torch.uint8 else inputs


def check_examples(where: str, examples: Examples, task: Task) -> None:
    """Refuse examples that can't be of this task; `where` says whose they are."""
    check_tensors(where, examples, task)
    check_labels(where, examples.labels, task)


def check_labels(where: str, labels: Tensor, task: Task) -> None:
    """Refuse labels that are no class, or beyond the range."""
    if isinstance(task, Regression):
        wrong = (~(labels.abs() <= 1)).nonzero()
        if len(wrong):
            raise FedveilError(
                f"{where}: label {float(labels[wrong[0, 0]]):g}, expected -1 to 1; scaled_labels(numbers, task) scales"
                f" numbers from {task.low:g} to {task.high:g}"
            )
        return
    lowest, highest = int(labels.min()), int(labels.max())
    if lowest < 0 or highest >= task.outputs:
        wrong_label = lowest if lowest < 0 else highest
        raise FedveilError(f"{where}: label {wrong_label}, expected 0 to {task.outputs - 1}")


def check_tensors(where: str, examples: Examples, task: Task | None) -> None:
    """Refuse tensors of wrong types and shapes, different lengths, no records, and values that are not finite."""
    inputs, labels = examples.inputs, examples.labels
    parts: dict[str, object] = {"inputs": inputs, "labels": labels}
    for name, values in parts.items():
        if not isinstance(values, torch.Tensor):
            kind = type(values).__name__
            raise FedveilError(f"{where}: {name} must be a torch tensor, not {kind}; torch.as_tensor makes one")
    if inputs.dtype not in (torch.uint8, torch.int64, torch.float32):
        raise FedveilError(f"{where}: inputs must be uint8 or float32, or int64 for tokens, not {inputs.dtype}")
    wanted = torch.float32 if isinstance(task, Regression) else torch.int64
    if labels.dtype != wanted or labels.ndim != 1:
        kind = str(wanted).removeprefix("torch.")
        raise FedveilError(f"{where}: labels must be a vector of {kind}, not {labels.dtype} {tuple(labels.shape)}")
    if inputs.ndim < 2:
        raise FedveilError(f"{where}: inputs must be [examples, …], not {tuple(inputs.shape)}")
    if len(inputs) != len(labels):
        raise FedveilError(f"{where}: {len(inputs)} inputs but {len(labels)} labels")
    if not len(labels):
        raise FedveilError(f"{where}: is empty")
    if inputs.dtype == torch.int64 and bool((inputs < 0).any()):
        first = int((inputs < 0).flatten(1).any(dim=1).nonzero()[0])
        raise FedveilError(f"{where}: example {first} holds a negative token; numbers that are no tokens are float32")
    if inputs.dtype == torch.float32:
        bad = ~torch.isfinite(inputs).flatten(1).all(dim=1)
        if bad.any():
            raise FedveilError(f"{where}: example {int(bad.nonzero()[0])} holds a value that is not a finite number")


def check_brightness(where: str, inputs: Tensor) -> None:
    """Refuse pictures of other numbers than bytes or 0 to 1: fixed features would make nothing of them."""
    if not inputs.is_floating_point() or not inputs.numel():
        return
    low, high = (float(edge) for edge in torch.aminmax(inputs))
    if low < 0 or high > 1:
        raise FedveilError(
            f"{where}: pictures must be bytes (uint8), or numbers from 0 to 1, not from {low:g} to {high:g};"
            " scale them, or name another network (model.name)"
        )
