"""Calls of kernels: at once, or recorded first and then run for a few clients at a time.

What a few clients need fits into a core's own cache, and one call of C costs less than many of Python. A `Program` has
the calls that were made while it was recorded. Some of the memory they saw stands for what is given when the program
runs (`Program.run`), some lasts, with room for all clients; whatever else they wrote every few clients write anew.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fedveil.native.compiled import check_version

try:
    from fedveil.native import layer_kernels
except ImportError:  # there was no compiler when fedveil was installed
    VECTOR_WIDTHS: tuple[int, ...] = ()
else:
    check_version(layer_kernels)
    VECTOR_WIDTHS = tuple(lanes for lanes in (16, 8) if lanes <= layer_kernels.lanes())
"""The widths of vectors that this machine has, in floats, the widest first: AVX-512, AVX2."""

MEMORIES = 6
"""Tensors that a kernel takes at most, as in the C file."""

Where = tuple[int, int, int]
"""Bytes behind the address with this number, and bytes from one group of clients to the next."""

_ADDRESSES, _PLACES = struct.Struct(f"{MEMORIES}Q"), struct.Struct(f"{1 + 3 * MEMORIES}q")
_NOTHING: Where = (0, 0, 0)


class NotRecorded(Exception):
    """Something was computed outside the kernels, which a program would not repeat."""


@dataclass(frozen=True, eq=False)
class Call:
    """A kernel, the sizes it is called with (`Shape` in the C file), and its memory, checked to fit."""

    kernel: int
    lanes: int
    clients: int
    sizes: bytes
    room: NDArray[np.float32]
    memory: tuple[Tensor | None, ...]

    def at_once(self) -> None:
        addresses = [0 if tensor is None else tensor.data_ptr() for tensor in self.memory]
        addresses += [0] * (MEMORIES - len(addresses))
        packed = _alone(self.sizes, self.kernel)
        layer_kernels.run(self.lanes, self.clients, packed, self.room, _ADDRESSES.pack(*addresses))


_recording: list[list[Call]] = []


def call(made: Call) -> None:
    """Run it, or record it where a program is being recorded."""
    if _recording:
        _recording[-1].append(made)
    else:
        made.at_once()


@contextmanager
def recorded() -> Iterator[list[Call]]:
    """The calls that are made inside; none of them is run. Raises `NotRecorded` where PyTorch computes anything."""
    calls: list[Call] = []
    _recording.append(calls)
    try:
        with _OnlyViews():  # type: ignore[no-untyped-call]
            yield calls
    finally:
        _recording.pop()


class _OnlyViews(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Nothing but new memory, and views of it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not (func.is_view or func is torch.ops.aten.empty.memory_format):
            raise NotRecorded(str(func))
        return func(*args, **(kwargs or {}))


class Lasting:
    """Memory of a group of clients that lasts, with room for all of them."""

    def __init__(self, clients: int, together: int) -> None:
        self._clients, self._together = clients, together
        self._rooms: dict[int, Tensor] = {}

    def keep(self, tensor: Tensor) -> Tensor:
        """The same `[clients, …]`, for a tensor `[together, …]` whose memory is all its own."""
        room = self._rooms.get(_start(tensor))
        if room is None:
            room = torch.empty(self._clients, *tensor.shape[1:], dtype=tensor.dtype)
            self._rooms[_start(tensor)] = room
        return room

    def place(self, tensor: Tensor) -> Where | None:
        """Where a recorded tensor is, if it lasts."""
        room = self._rooms.get(_start(tensor))
        if room is None:
            return None
        stride = room.numel() // self._clients * self._together * room.element_size()
        return 0, room.data_ptr() + tensor.data_ptr() - _start(tensor), stride


class Program:
    """Recorded calls. `given` are the tensors `[together, …]` for which others, of all clients, are given to `run`."""

    def __init__(self, calls: Sequence[Call], given: Sequence[Tensor], lasting: Lasting) -> None:
        self._calls, self._given, self._lasting = tuple(calls), tuple(given), lasting  # whose memory must not be freed
        self._roots = struct.Struct(f"{1 + len(given)}Q")
        self._room = max((made.room for made in calls), key=len)
        self._packed = b"".join(
            _packed(made.sizes, made.kernel, [self._place(tensor) for tensor in made.memory]) for made in calls
        )

    def _place(self, tensor: Tensor | None) -> Where:
        if tensor is None:
            return _NOTHING
        for root, given in enumerate(self._given, start=1):
            if _start(given) == _start(tensor):
                return root, tensor.data_ptr() - _start(tensor), given.numel() * given.element_size()
        return self._lasting.place(tensor) or (0, tensor.data_ptr(), 0)

    def run(self, clients: int, *given: Tensor) -> None:
        """Run all calls for the first few clients, then for the next."""
        together = self._calls[0].clients
        for stood_for, tensor in zip(self._given, given, strict=True):
            whole = tensor.numel() * together == stood_for.numel() * clients and tensor.is_contiguous()
            if not (whole and tensor.dtype == stood_for.dtype):
                raise ValueError(f"memory of shape {tuple(tensor.shape)} does not fit {tuple(stood_for.shape)}")
        addresses = self._roots.pack(0, *[tensor.data_ptr() for tensor in given])
        layer_kernels.run(self._calls[0].lanes, clients, self._packed, self._room, addresses)


def _start(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@lru_cache(maxsize=1024)
def _alone(sizes: bytes, kernel: int) -> bytes:
    """A call whose memory is all given when it runs."""
    return _packed(sizes, kernel, [(place, 0, 0) for place in range(MEMORIES)])


def _packed(sizes: bytes, kernel: int, places: Sequence[Where]) -> bytes:
    """As `Call` in the C file."""
    numbers = [number for place in (*places, *[_NOTHING] * (MEMORIES - len(places))) for number in place]
    return sizes + _PLACES.pack(kernel, *numbers)
