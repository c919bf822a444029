"""Labels of any kind as indices of classes. What is not as it should be is said, never guessed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedveil.core.deferred import torch
from fedveil.core.errors import FedveilError
from fedveil.core.tasks import Classification

if TYPE_CHECKING:
    from torch import Tensor

MOST_LISTED = 10


def counted_classes(parts: Mapping[str, NDArray[Any]]) -> tuple[Hashable, ...]:
    """The classes that labels name: whole numbers from 0 without a gap, false and true, or texts in their order."""
    different: dict[Hashable, str] = {}
    for where, labels in parts.items():
        for label in _different(where, labels):
            different.setdefault(label, where)
    kinds = {type(label): label for label in different}
    if len(kinds) > 1:
        examples = " and ".join(f"{label!r} ({kind.__name__})" for kind, label in list(kinds.items())[:2])
        where = list(different.values())[-1]
        raise FedveilError(f"{where}: labels of mixed types, {examples}; name all classes: classes=[…]")
    if bool in kinds:
        return (False, True)
    if int in kinds:
        return _from_zero(different)
    if float in kinds:
        label, where = next(iter(different.items()))
        raise FedveilError(
            f"{where}: label {label!r} is a number with a point; give task=Regression(low, high) to predict a number,"
            " or name the classes: classes=[…]"
        )
    return tuple(sorted(different, key=str))


def class_indices(where: str, labels: NDArray[Any], classes: Sequence[Hashable]) -> Tensor:
    """For each label its place among the classes."""
    places = {label: place for place, label in enumerate(classes)}
    if labels.dtype.kind == "O":
        for number, label in enumerate(labels):
            if not is_hashable(label) or label not in places:
                raise _no_class(where, number, label, classes)
        return torch.tensor([places[label] for label in labels], dtype=torch.int64)
    different, inverse = np.unique(labels, return_inverse=True)
    found = np.array([places.get(label, -1) for label in different.tolist()], dtype=np.int64)[inverse.reshape(-1)]
    if (found < 0).any():
        number = int(np.flatnonzero(found < 0)[0])
        raise _no_class(where, number, labels[number].item(), classes)
    return torch.from_numpy(found)


def classes_of(task: Classification, labels: NDArray[Any]) -> Sequence[Hashable]:
    """What labels of a task with named classes are: the names themselves, or their places."""
    named = labels.dtype.kind in "US" or (labels.dtype.kind == "O" and len(labels) and isinstance(labels[0], str))
    return task.class_names if named else range(task.outputs)


def _different(where: str, labels: NDArray[Any]) -> list[Hashable]:
    if labels.dtype.kind != "O":
        return np.unique(labels).tolist()  # type: ignore[no-any-return]
    for number, label in enumerate(labels):
        if label is None or (isinstance(label, float) and math.isnan(label)):
            raise FedveilError(f"{where}: example {number} has no label")
        if not is_hashable(label):
            raise FedveilError(f"{where}: example {number} has a {type(label).__name__} as its label")
    return list(dict.fromkeys(labels.tolist()))


def _from_zero(labels: Mapping[Hashable, str]) -> tuple[int, ...]:
    numbers = sorted(label for label in labels if isinstance(label, int))
    lowest, highest = numbers[0], numbers[-1]
    if lowest != 0:
        shift = f"subtract {lowest}" if lowest > 0 else f"add {-lowest}"
        raise FedveilError(
            f"{labels[lowest]}: labels begin at {lowest}, not at 0; {shift}, or name the classes:"
            f" classes={_listed(numbers)}"
        )
    if len(numbers) != highest + 1:
        gap = next(number for number in range(highest) if number not in labels)
        raise FedveilError(
            f"{labels[highest]}: labels go up to {highest}, and no record has label {gap}; name the classes:"
            f" classes=range({highest + 1}) if it exists, else classes={_listed(numbers)}"
        )
    return tuple(numbers)


def _no_class(where: str, number: int, label: object, classes: Sequence[Hashable]) -> FedveilError:
    return FedveilError(
        f"{where}: example {number} has label {label!r}, which is none of the classes {_listed(classes)}"
    )


def _listed(classes: Sequence[Hashable]) -> str:
    more = ", …" if len(classes) > MOST_LISTED else ""
    return f"[{', '.join(map(repr, classes[:MOST_LISTED]))}{more}]"


def is_hashable(label: object) -> bool:
    """Whether a label can be told from others."""
    try:
        hash(label)
    except TypeError:
        return False
    return True
