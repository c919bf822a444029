"""An array that rows are added to without ever holding them twice."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class GrowingArray:
    """Rows of one width, in one piece of memory that is enlarged where it stands, by an eighth at a time."""

    def __init__(self, width: tuple[int, ...], dtype: DTypeLike) -> None:
        self._rows = 0
        self._array: NDArray[Any] = np.empty((0, *width), dtype=dtype)

    def add(self, rows: NDArray[Any]) -> None:
        needed = self._rows + len(rows)
        if needed > len(self._array):
            self._resize(needed + needed // 8)
        self._array[self._rows : needed] = rows
        self._rows = needed

    def finish(self) -> NDArray[Any]:
        """All rows, without the memory that was kept for more."""
        self._resize(self._rows)
        return self._array

    def _resize(self, rows: int) -> None:
        self._array.resize((rows, *self._array.shape[1:]), refcheck=False)  # no view of it was given away
