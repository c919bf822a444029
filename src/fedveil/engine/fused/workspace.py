"""Memory kept from one step to the next: fresh pages cost more than the arithmetic done on them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

LANES = 16
"""Floats in a line of the cache."""

_Memory = TypeVar("_Memory")


class Shelf:
    """One stage's buffers for a fixed number of clients and slots, plus what it remembers between passes."""

    def __init__(self, clients: int, slots: int) -> None:
        self.clients = clients
        self.slots = slots
        self.kept: dict[str, Tensor] = {}
        self._buffers: dict[str, Tensor] = {}
        self._prepared: dict[str, Any] = {}

    def buffer(self, name: str, *shape: int, fill: float | None = None) -> Tensor:
        """The contiguous buffer `[clients, *shape]` of this name; `fill` is written once, when it is made."""
        kept = self._buffers.get(name)
        if kept is None:
            kept = torch.empty(self.clients, *shape)
            if fill is not None:
                kept.fill_(fill)
            self._buffers[name] = kept
        return kept

    def once(self, name: str, prepare: Callable[[Shelf], _Memory]) -> _Memory:
        """What `prepare` returned the first time: buffers and the views of them that every pass needs."""
        if name not in self._prepared:
            self._prepared[name] = prepare(self)
        memory: _Memory = self._prepared[name]
        return memory

    def apart(self, name: str, size: int) -> Tensor:
        """A buffer `[clients, size]` whose rows do not touch.

        A loop over it starts afresh at every client, so each element meets the same code (vectorised, or
        scalar in the tail) whatever the number of clients.
        """
        return self.buffer(name, (size // LANES + 1) * LANES)[:, :size]


def not_prepared(shelf: Shelf) -> Any:
    """For `Shelf.once`, where the forward pass has prepared what is asked for."""
    raise AssertionError("backward before forward")


class Recent(Generic[_Memory]):
    """What was made for the numbers of clients and slots seen last; the least recently used is dropped first."""

    def __init__(self, make: Callable[[int, int], _Memory], kept: int = 4) -> None:
        self._make, self._kept = make, kept
        self._made: OrderedDict[tuple[int, int], _Memory] = OrderedDict()

    def of(self, clients: int, slots: int) -> _Memory:
        key = (clients, slots)
        if key not in self._made:
            self._made[key] = self._make(clients, slots)
            while len(self._made) > self._kept:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return self._made[key]
