"""The sampler in NumPy: the same integers as the kernels in C, slower. Noise only, so on any machine.

A draw takes 64 random bits. Its column of an alias table gives a *knot* (a multiple of w = S/8), and two uniform
numbers around it give a *hat*: a sum that falls off linearly to the neighbouring knots. Hats of all knots together
cover all but a thousandth of a rounded Gaussian. What they leave is drawn by rejection: a *proposal* chooses a bin and
a cell in it, and is accepted with the exact probability that is missing there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedveil.native.tables import ALIAS, COEFFICIENTS, DEGREE, ENDS, FIRST, FIXED_BITS, KNOT_BITS

GROUP = 16
"""Draws side by side: 16 words that choose the knots, then 16 that place them."""

ROOM = 64
"""How far, in 2⁻⁴⁰, the polynomials may be off (proved in `tests/native/test_tables.py`)."""

LIMIT = 2.0**50
"""Where sums are cut off, in cells, so that all integers stay exact in double precision."""

Words = NDArray[np.uint32]
Noise = NDArray[np.int32]
Decide = Callable[[int, bytes], int | None]
"""Decides what forty bits can't: a proposal's place and block of 16 bytes give its value, or None if rejected."""

_THRESHOLDS = np.array(ALIAS, np.uint32) >> np.uint32(16)
_OTHERS = ((np.array(ALIAS, np.uint32) & np.uint32(63)).view(np.int32) ^ 32) - 32
_SLOW = np.int32(-32)
_ENDS = np.array(ENDS, np.int64)
_COEFFICIENTS = np.array(COEFFICIENTS, np.int64).reshape(-1, DEGREE + 1)
_KNOT = 1 << KNOT_BITS


def sample(words: Words, out: Noise) -> NDArray[np.intp]:
    """A draw in `out` `[n]` for every two of the words `[2n]`; the places of those that want a proposal instead."""
    pairs = words.reshape(-1, 2, GROUP)
    first, second = pairs[:, 0].ravel(), pairs[:, 1].ravel()
    column = (first & np.uint32(63)).view(np.int32)
    coin = (first >> np.uint32(6)) & np.uint32(0xFFFF)
    knot = np.where(coin < _THRESHOLDS.take(column), (column ^ 32) - 32, _OTHERS.take(column))
    np.left_shift(knot, KNOT_BITS, out=out)
    out += (second >> np.uint32(11)).view(np.int32)
    out += (((first >> np.uint32(22)) | (second << np.uint32(10))) & np.uint32(_KNOT - 1)).view(np.int32)
    out -= _KNOT - 1
    return np.flatnonzero(knot == _SLOW)


def proposals(blocks: Words, decide: Decide) -> tuple[Noise, NDArray[np.bool_]]:
    """The values of the proposals in `blocks` `[m, 4]`, and which of them are accepted."""
    units = blocks[:, 0].astype(np.int64)
    bins = np.searchsorted(_ENDS, units, "right") - 1
    near = bins < len(_COEFFICIENTS)
    terms = _COEFFICIENTS[np.where(near, bins, 0)]
    place = (blocks[:, 1] & np.uint32(_KNOT - 1)).astype(np.int64)
    centred = place - _KNOT // 2
    share = terms[:, DEGREE]
    for k in range(DEGREE - 1, -1, -1):
        share = ((share * centred) >> (KNOT_BITS - 1)) + terms[:, k]
    uniform = (blocks[:, 2].astype(np.uint64) | (blocks[:, 3].astype(np.uint64) << np.uint64(32))) >> np.uint64(
        64 - FIXED_BITS
    )
    difference = uniform.astype(np.int64) - share
    accepted = near & (difference < -ROOM)
    values = ((bins + FIRST) * _KNOT + place).astype(np.int32)
    undecided = (near & (np.abs(difference) <= ROOM)) | (units == ENDS[-1])
    for number in np.flatnonzero(undecided).tolist():
        value = decide(number, blocks[number].tobytes())
        accepted[number] = value is not None
        values[number] = value or 0
    return values, accepted


def add(values: NDArray[Any], noise: Noise, grid: float) -> None:
    """(values rounded to the grid + noise)·grid, in place. A value that is not a number becomes the lower limit."""
    cells = values.astype(np.float64) * (1 / grid)
    cells = np.where(cells >= -LIMIT, cells, -LIMIT)
    cells = np.rint(np.where(cells <= LIMIT, cells, LIMIT))
    cells += noise
    cells *= grid
    values[...] = cells
