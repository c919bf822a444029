"""Records that a trained model is asked about and that are no rows of a table: pictures in a folder, or arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedveil.core.errors import FedveilError
from fedveil.data.examples import to_float
from fedveil.data.picture_folders import ENDINGS, decoded_picture
from fedveil.data.picture_format import PictureFormat
from fedveil.data.raw_records import input_tensor

RECORDS_AT_ONCE = 256
"""Records that are in memory at a time, of pictures in a folder."""


@dataclass(frozen=True)
class NewRecords:
    """Blocks of records as a model takes them, and what they are called: `names` of pictures, or rows by number."""

    heading: str
    names: tuple[str, ...]
    blocks: Iterator[Tensor]


def new_records(data: object, input_shape: Sequence[int], *, tokens: bool) -> NewRecords:
    """Pictures below a folder, the numbers of a `.npy` file, an array or a tensor, for a model of records so shaped.

    Whole numbers count as bytes of pictures only where their type says so (uint8).
    """
    if isinstance(data, str | Path):
        path = Path(data)
        if path.is_dir():
            return _pictures(path, input_shape)
        if path.suffix.lower() in ENDINGS:
            return _pictures(path, input_shape, (path,))
        return _array(str(path), _stored(path), input_shape, tokens)
    return _array("data", data, input_shape, tokens)


def _pictures(folder: Path, input_shape: Sequence[int], paths: Sequence[Path] = ()) -> NewRecords:
    if len(input_shape) != 3 or input_shape[0] not in (1, 3):
        raise FedveilError(f"{folder}: holds pictures, but the model takes records of shape {list(input_shape)}")
    colours, height, width = input_shape
    form = PictureFormat(height=height, width=width, grey=colours == 1)
    paths = paths or sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS and path.is_file())
    if not paths:
        raise FedveilError(f"{folder}: holds no pictures ({', '.join(ENDINGS)})")

    def blocks() -> Iterator[Tensor]:
        for first in range(0, len(paths), RECORDS_AT_ONCE):
            some = [decoded_picture("data", path, form) for path in paths[first : first + RECORDS_AT_ONCE]]
            yield to_float(torch.from_numpy(np.stack(some)))

    names = tuple(str(path.relative_to(folder)) if path != folder else path.name for path in paths)
    return NewRecords("picture", names, blocks())


def _stored(path: Path) -> object:
    try:
        with open(path, "rb") as file:
            if file.read(6) == b"\x93NUMPY":
                return np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise FedveilError(f"{path}: can't be read ({error.strerror})") from None
    except ValueError as error:
        raise FedveilError(f"{path}: not an array of numbers ({str(error).splitlines()[0]})") from None
    raise FedveilError(
        f"{path}: the model takes no rows of a table; give a folder of pictures, or a .npy file of records"
    )


def _array(where: str, values: object, input_shape: Sequence[int], tokens: bool) -> NewRecords:
    if isinstance(values, Sequence) and not len(values):
        raise FedveilError(f"{where}: is empty")
    inputs = input_tensor(where, values)
    if tuple(inputs.shape[1:]) != tuple(input_shape) or not inputs.ndim:
        raise FedveilError(
            f"{where}: records have shape {list(inputs.shape[1:])}, and the model takes {list(input_shape)}"
        )
    if not len(inputs):
        raise FedveilError(f"{where}: is empty")
    if tokens != (inputs.dtype == torch.int64):
        if tokens:
            raise FedveilError(f"{where}: the model takes tokens, which are whole numbers, not {inputs.dtype}")
        inputs = inputs.to(torch.float32)  # whole numbers of a list, where the model takes any
    if inputs.is_floating_point():
        bad = ~torch.isfinite(inputs).flatten(1).all(dim=1)
        if bad.any():
            raise FedveilError(f"{where}: record {int(bad.nonzero()[0])} holds a value that is not a finite number")
    return NewRecords("row", (), (to_float(part) for part in torch.split(inputs, RECORDS_AT_ONCE)))
