"""Records as people have them in Python: arrays, tensors, pairs, torch data sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedveil.core.deferred import torch
from fedveil.core.errors import FedveilError
from fedveil.data.examples import Examples

if TYPE_CHECKING:
    from torch import Tensor

GivenLabels = NDArray[Any]
"""GivenLabels [N] as they were given: numbers, texts, or (as objects) anything that can be compared."""


@dataclass(frozen=True, eq=False)
class RawRecords:
    """Inputs [N, …] as a model takes them, and labels that are yet to be made indices or numbers on [−1, 1]."""

    inputs: Tensor
    labels: GivenLabels

    def __len__(self) -> int:
        return len(self.inputs)


def raw_records(where: str, value: object) -> RawRecords:
    """Inputs and labels of `Examples`, a pair (inputs, labels), or a torch data set of such pairs."""
    if isinstance(value, Examples):
        inputs, labels = input_tensor(where, value.inputs), label_array(where, value.labels)
    elif isinstance(value, tuple | list) and len(value) == 2:
        inputs, labels = input_tensor(where, value[0]), label_array(where, value[1])
    elif isinstance(value, torch.utils.data.Dataset):
        inputs, labels = _stacked(where, value)
    else:
        raise FedveilError(
            f"{where}: records must be Examples, a pair (inputs, labels), a torch.utils.data.Dataset, a table with a"
            f" schema, or a folder of pictures, not {type(value).__name__}"
        )
    if len(inputs) != len(labels):
        raise FedveilError(f"{where}: {len(inputs)} inputs but {len(labels)} labels")
    return RawRecords(inputs, labels)


def input_tensor(where: str, values: object) -> Tensor:
    """Bytes stay bytes (pictures), whole numbers become int64 (tokens), all other numbers float32."""
    if not isinstance(values, torch.Tensor):
        array = _array(where, values)
        if array.dtype.kind not in "biuf":
            raise FedveilError(f"{where}: inputs must be numbers, not {_kind_of(array)}")
        if array.dtype == np.uint64 and array.size and int(array.max()) >= 2**63:
            raise FedveilError(f"{where}: inputs hold whole numbers beyond 2^63")
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        wide = native.astype(np.int64) if native.dtype.kind == "u" and native.dtype != np.uint8 else native
        values = torch.from_numpy(np.require(wide, requirements=("C", "W")))  # tensors can be written to
    if values.is_complex():
        raise FedveilError(f"{where}: inputs must be real numbers, not {values.dtype}")
    values = values.detach().cpu()
    if values.dtype == torch.uint8:
        return values
    whole = not values.is_floating_point() and values.dtype != torch.bool
    return values.to(torch.int64 if whole else torch.float32)


def label_array(where: str, values: object) -> GivenLabels:
    """GivenLabels [N], of the type they have; a list keeps its objects as they are."""
    if isinstance(values, torch.Tensor):
        array: GivenLabels = values.detach().cpu().numpy()
    elif isinstance(values, list | tuple):
        array = np.empty(len(values), dtype=object)
        array[:] = [_plain(label) for label in values]
    else:
        array = _array(where, values)
    if array.ndim != 1:
        raise FedveilError(f"{where}: labels must be a vector, one for each record, not {list(array.shape)}")
    return array


def _stacked(where: str, records: Any) -> tuple[Tensor, GivenLabels]:
    inputs: list[Tensor] = []
    labels: list[object] = []
    pairs = (records[index] for index in range(len(records))) if hasattr(records, "__len__") else iter(records)
    for number, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise FedveilError(f"{where}: example {number} must be a pair (input, label), not {type(pair).__name__}")
        one = pair[0] if isinstance(pair[0], torch.Tensor) else torch.from_numpy(_array(where, pair[0]).copy())
        if inputs and (one.shape != inputs[0].shape or one.dtype != inputs[0].dtype):
            raise FedveilError(
                f"{where}: example {number} is {one.dtype} {list(one.shape)}, and the first one"
                f" {inputs[0].dtype} {list(inputs[0].shape)}"
            )
        inputs.append(one)
        labels.append(pair[1])
    if not inputs:
        raise FedveilError(f"{where}: is empty")
    return input_tensor(where, torch.stack(inputs)), label_array(where, labels)


def _array(where: str, values: object) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise FedveilError(f"{where}: not an array of equal rows ({str(error).splitlines()[0]})") from None


def _plain(label: Any) -> object:
    """A label as Python has it: a tensor or array of one number is that number."""
    if isinstance(label, torch.Tensor) and label.numel() == 1:
        return label.item()
    if isinstance(label, np.generic | np.ndarray) and label.size == 1:
        return label.item()
    return label


def _kind_of(array: NDArray[Any]) -> str:
    kinds = {"U": "texts", "S": "bytes", "O": "objects of mixed types", "M": "dates", "m": "durations"}
    return kinds.get(array.dtype.kind, str(array.dtype))
