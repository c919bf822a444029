"""A pickle whose large arrays lie in memory that several processes map, so that there is one copy of all records.

The memory is a file without a name (`memfd` on Linux, elsewhere a deleted temporary file): it is gone when the last
process that has it is. Every process maps it privately, so nobody can change what another one reads.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import tempfile
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

LARGE = 1 << 16
"""Bytes from which on an array is shared; smaller ones travel in the pickle."""

ALIGNMENT = 64
"""Arrays begin at whole lines of the caches."""


class SharedArrays:
    """Objects as bytes, and a file with their large arrays, for processes that inherit its descriptor."""

    def __init__(self) -> None:
        self._file = os.fdopen(os.memfd_create("fedveil"), "w+b") if hasattr(os, "memfd_create") else _temporary()

    @property
    def descriptor(self) -> int:
        return self._file.fileno()

    def dumps(self, value: object) -> bytes:
        """The pickle of a value; its large arrays are in the file."""
        content = io.BytesIO()
        _Pickler(content, self._file).dump(value)
        self._file.flush()
        return content.getvalue()

    def close(self) -> None:
        self._file.close()


def load_shared(pickled: BinaryIO, descriptor: int) -> Any:
    """What `dumps` was given, its large arrays mapped from the file."""
    return _Unpickler(pickled, descriptor).load()


class _Pickler(pickle.Pickler):
    def __init__(self, content: BinaryIO, file: BinaryIO) -> None:
        super().__init__(content, protocol=pickle.HIGHEST_PROTOCOL)
        self._file = file

    def persistent_id(self, value: object) -> tuple[str, str, tuple[int, ...], int] | None:
        """(kind, type, shape, place in the file) of a large array; None for whatever the pickle holds itself."""
        if type(value) is Tensor and value.device.type == "cpu" and not value.requires_grad:
            if value.layout is not torch.strided or value.nbytes < LARGE or value.dtype is torch.bfloat16:
                return None
            array, kind = value.detach().contiguous().numpy(), "tensor"
        elif type(value) is np.ndarray and value.nbytes >= LARGE and not value.dtype.hasobject:
            array, kind = np.ascontiguousarray(value), "array"
        else:
            return None
        self._file.seek(-(-self._file.seek(0, os.SEEK_END) // ALIGNMENT) * ALIGNMENT)
        place = self._file.tell()
        self._file.write(array.data)
        return kind, array.dtype.str, array.shape, place


class _Unpickler(pickle.Unpickler):
    def __init__(self, pickled: BinaryIO, descriptor: int) -> None:
        super().__init__(pickled)
        size = os.fstat(descriptor).st_size
        # Written pages would be copied, not shared; torch complains of memory that can't be written at all.
        self._memory = mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY) if size else None

    def persistent_load(self, name: Any) -> object:
        kind, dtype, shape, place = name
        assert self._memory is not None
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(self._memory, dtype=dtype, count=count, offset=place).reshape(shape)
        return torch.from_numpy(array) if kind == "tensor" else array


def _temporary() -> BinaryIO:
    return tempfile.TemporaryFile()
