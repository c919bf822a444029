"""Which rows of a table belong to which client, as one array: a hundred thousand clients hold fifty million rows.

Row numbers have 32 bits, which no table in memory exceeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

RowNumbers = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class RowLists:
    """The rows of client after client; the first `sizes[0]` are those of client 0."""

    rows: RowNumbers
    sizes: tuple[int, ...]

    @staticmethod
    def of(lists: Iterable[ArrayLike]) -> RowLists:
        """One list for each client."""
        parts = [np.asarray(part, dtype=np.int32) for part in lists]
        return RowLists(np.concatenate([np.empty(0, np.int32), *parts]), tuple(map(len, parts)))

    @staticmethod
    def of_table(table: NDArray[np.int32]) -> RowLists:
        """Every client has a line of the table."""
        clients, each = table.shape
        return RowLists(table.reshape(-1), (each,) * clients)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.concatenate(([0], np.cumsum(self.sizes, dtype=np.int64)))

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, client: int) -> RowNumbers:
        place = range(len(self.sizes))[client]
        return self.rows[self._starts[place] : self._starts[place + 1]]

    def __iter__(self) -> Iterator[RowNumbers]:
        return (self[client] for client in range(len(self)))
