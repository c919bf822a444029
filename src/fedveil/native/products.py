"""Products of many small matrices, in C where this machine has the kernels.

Libraries are made for large matrices. Of small ones they copy more than they multiply.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from fedveil.native.calls import VECTOR_WIDTHS, Call, call
from fedveil.native.small_layers import sizes_of

MOST_TERMS, MOST_COLUMNS = 512, 512
"""Larger matrices are left to the library."""

_NO_ROOM = np.zeros(16, np.float32)


def multiply(first: Tensor, second: Tensor, out: Tensor, *, add: bool = False) -> Tensor:
    """Write `first` `[K, m, p]` times `second` `[K, p, n]` to `out` `[K, m, n]`, or add it."""
    if not _takes(first, second, out):
        return torch.baddbmm(out, first, second, out=out) if add else torch.bmm(first, second, out=out)
    count, rows, terms = first.shape
    columns = second.shape[2]
    if (count, terms, columns) != (second.shape[0], second.shape[1], out.shape[2]) or out.shape[:2] != (count, rows):
        raise ValueError(f"{tuple(first.shape)} times {tuple(second.shape)} is not {tuple(out.shape)}")
    sizes = sizes_of(clients=count, slots=rows, channels=terms, filters=columns, relu=add)
    strides = _strides(first.stride(), second.stride(), out.stride())
    call(Call(_MULTIPLY, VECTOR_WIDTHS[0], count, sizes, _NO_ROOM, (first, second, out, strides)))
    return out


_MULTIPLY = 12


def _takes(*matrices: Tensor) -> bool:
    first, second, out = matrices
    small = first.shape[2] <= MOST_TERMS and second.shape[2] <= MOST_COLUMNS and first.numel() > 0 and out.numel() > 0
    here = all(each.dtype == torch.float32 and each.device.type == "cpu" for each in matrices)
    return bool(VECTOR_WIDTHS) and small and here and second.stride(2) == 1 and out.stride(2) == 1


@lru_cache(maxsize=1024)
def _strides(first: tuple[int, ...], second: tuple[int, ...], out: tuple[int, ...]) -> Tensor:
    return torch.tensor([*first, *second[:2], *out[:2]], dtype=torch.int64)
