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

MOST_TERMS, MOST_COLUMNS = 4096, 4096
"""Larger matrices are left to the library."""

MOST_UNTURNED_ROWS, UNTURNED_ROWS_PER_TERM = 256, 0.75
"""With more rows than that it pays to turn the weights of a layer round before they are multiplied with (measured)."""

LARGE_MATRIX = 1 << 14
"""From so many numbers on a matrix is turned round faster by itself than among others (measured)."""

_NO_ROOM = np.zeros(16, np.float32)


def multiply(first: Tensor, second: Tensor, out: Tensor, *, add: bool = False) -> Tensor:
    """Write `first` `[K, m, p]` times `second` `[K, p, n]` to `out` `[K, m, n]`, or add it.

    `second` may be a layer's weights `[K, n, p]` with their axes exchanged.
    """
    if not _takes(first, second, out):
        return torch.baddbmm(out, first, second, out=out) if add else torch.bmm(first, second, out=out)
    count, rows, terms = first.shape
    columns = second.shape[2]
    if (count, terms, columns) != (second.shape[0], second.shape[1], out.shape[2]) or out.shape[:2] != (count, rows):
        raise ValueError(f"{tuple(first.shape)} times {tuple(second.shape)} is not {tuple(out.shape)}")
    if second.stride(2) != 1:
        few = rows <= min(UNTURNED_ROWS_PER_TERM * terms, MOST_UNTURNED_ROWS)
        if few and not add and first.is_contiguous() and out.is_contiguous():
            sizes = sizes_of(clients=count, slots=rows, size=second.stride(0), bias=-1, channels=terms, filters=columns)
            call(Call(_DENSE, VECTOR_WIDTHS[0], count, sizes, _NO_ROOM, (second, first, out)))
            return out
        second = turned(second.mT, second.new_empty(second.shape))
    sizes = sizes_of(clients=count, slots=rows, channels=terms, filters=columns, relu=add)
    strides = _strides(first.stride(), second.stride(), out.stride())
    call(Call(_MULTIPLY, VECTOR_WIDTHS[0], count, sizes, _NO_ROOM, (first, second, out, strides)))
    return out


def turned(matrices: Tensor, out: Tensor) -> Tensor:
    """Write matrices `[K, m, n]` as `[K, n, m]` to `out`. Large ones one by one, for which PyTorch has its own way."""
    if matrices.shape[1] * matrices.shape[2] < LARGE_MATRIX:
        return out.copy_(matrices.mT)
    for own, matrix in zip(out, matrices, strict=True):
        own.copy_(matrix.t())
    return out


_DENSE, _MULTIPLY = 4, 12


def _takes(*matrices: Tensor) -> bool:
    first, second, out = matrices
    small = first.shape[2] <= MOST_TERMS and second.shape[2] <= MOST_COLUMNS and first.numel() > 0 and out.numel() > 0
    here = all(each.dtype == torch.float32 and each.device.type == "cpu" for each in matrices)
    side_by_side = second.stride(2) == 1 or (second.stride(1) == 1 and second.stride(2) == second.shape[1])
    return bool(VECTOR_WIDTHS) and small and here and side_by_side and out.stride(2) == 1


@lru_cache(maxsize=1024)
def _strides(first: tuple[int, ...], second: tuple[int, ...], out: tuple[int, ...]) -> Tensor:
    return torch.tensor([*first, *second[:2], *out[:2]], dtype=torch.int64)
