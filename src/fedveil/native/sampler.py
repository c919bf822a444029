"""Rounded Gaussians for many streams at once, by the fastest way that this machine has. All ways give the same bits.

A stream's blocks of 16 random bytes: the draws take two words each, from block 0 on; proposals take a block each, from
block 2³¹ on. More bits of a proposal, which hardly any wants, are hashes of its address and number.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fedveil.core.errors import FedveilError
from fedveil.core.streams import Address, Purpose, Streams
from fedveil.native import twin
from fedveil.native.compiled import check_version
from fedveil.native.tables import ALIAS, COEFFICIENTS, ENDS

try:
    from fedveil.native import kernels
except ImportError:  # there was no compiler when fedveil was installed
    COMPILED = False
else:
    COMPILED = True
    check_version(kernels)
    kernels.configure(np.array(ALIAS, np.uint32), np.array(ENDS, np.uint32), np.array(COEFFICIENTS, np.int64))

MOST_DRAWS = 2**31
"""Draws of one stream, so that its blocks never reach those of its proposals."""

_BLOCK = 16  # bytes
_PROPOSALS = 2**31  # where their blocks begin
_PIECE = 1 << 14  # draws at a time: what a dozen passes work on stays in a core's own cache

Values = NDArray[np.float32] | NDArray[np.float64] | NDArray[np.int32]


class Way(StrEnum):
    """How to compute: in C with AVX-512 and VAES, with AVX2 and AES, in C for any processor, or in NumPy."""

    VECTOR = "vector"
    NARROW = "narrow vector"
    PLAIN = "plain"
    TWIN = "twin"


SIDE_BY_SIDE = {Way.VECTOR: 16, Way.NARROW: 8}
"""Draws side by side, where the kernel draws its own random bits."""

WAYS = tuple(way for way in Way if way is Way.TWIN or (COMPILED and SIDE_BY_SIDE.get(way, 0) <= kernels.lanes()))
"""The ways that this machine has, the fastest first."""


class Sampler:
    """Draws from the streams of one run."""

    def __init__(self, streams: Streams, way: Way = WAYS[0]) -> None:
        self._streams, self._way = streams, way
        self._words = np.empty(0, np.uint32)
        self._noise = np.empty(0, np.int32)
        self._slow = np.empty(0, np.uint32)

    def release(self, purpose: Purpose, addresses: Sequence[Address], values: Values, grid: float) -> None:
        """Round each row of `values` `[K, P]` to the grid and add N(0, (2²⁴·grid)²) rounded to it, in place.

        Row `i` draws from the stream at `addresses[i]`. Where `values` are int32 they become the noise, in cells.
        """
        size = values.shape[-1]
        if size >= MOST_DRAWS:
            raise FedveilError(f"{size:,} values from one stream, which has {MOST_DRAWS:,}: the model is too large")
        if not len(addresses) or not size:
            return
        if self._way in SIDE_BY_SIDE:
            where = np.asarray(addresses, np.uint32)

            def answer(row: int, number: int, block: bytes) -> int | None:
                return self._decide(purpose, addresses[row], number, block)

            key = self._streams.purpose_key(purpose)
            kernels.release(SIDE_BY_SIDE[self._way], key, where, values, grid, answer)
            return
        together = max(_PIECE // size, 1)
        for first in range(0, len(addresses), together):
            self._release_some(purpose, addresses[first : first + together], values[first : first + together], grid)

    def _release_some(self, purpose: Purpose, addresses: Sequence[Address], values: Values, grid: float) -> None:
        rows, size = values.shape
        used = [0] * rows  # proposals
        for start in range(0, size, _PIECE):
            count = min(size - start, _PIECE)
            noise = self._draw(purpose, addresses, start, count, used)
            part = values[:, start : start + count]
            if grid == 0:
                part[...] = noise
            elif self._way is Way.PLAIN:
                for row in range(rows):
                    kernels.add(part[row], noise[row], grid)
            else:
                twin.add(part, noise, grid)

    def _draw(
        self, purpose: Purpose, addresses: Sequence[Address], start: int, count: int, used: list[int]
    ) -> NDArray[np.int32]:
        """The draws `start` … `start + count` of each stream; `used` counts the proposals that were looked at."""
        rows, width = len(addresses), -(-count // twin.GROUP) * twin.GROUP
        words, noise = self._room(rows * width)
        for row, address in enumerate(addresses):
            self._streams.fill(purpose, address, words[2 * row * width : 2 * (row + 1) * width], start // 2)
        if self._way is Way.PLAIN:
            slow = self._slow[: kernels.sample(words, noise, self._slow)].astype(np.intp)
        else:
            slow = twin.sample(words, noise)
        slow = slow[slow % width < count]
        owners = slow // width
        pending = {int(row): slow[owners == row] for row in np.unique(owners)}
        while pending:
            pending = self._propose(purpose, addresses, noise, pending, used)
        return noise.reshape(rows, width)[:, :count]

    def _propose(
        self,
        purpose: Purpose,
        addresses: Sequence[Address],
        noise: NDArray[np.int32],
        pending: dict[int, NDArray[np.intp]],
        used: list[int],
    ) -> dict[int, NDArray[np.intp]]:
        """Fill the places that wait, row by row, with accepted proposals; what is still waiting then."""
        many = 8 + 3 * max(len(places) for places in pending.values())
        blocks = np.empty((len(pending), many, 4), np.uint32)
        for place, row in enumerate(pending):
            self._streams.fill(purpose, addresses[row], blocks[place].reshape(-1), _PROPOSALS + used[row])
        owners = list(pending)

        def answer(number: int, block: bytes) -> int | None:
            row = owners[number // many]
            return self._decide(purpose, addresses[row], used[row] + number % many, block)

        values, accepted = twin.proposals(blocks.reshape(-1, 4), answer)
        values, accepted = values.reshape(-1, many), accepted.reshape(-1, many)
        left: dict[int, NDArray[np.intp]] = {}
        for place, (row, places) in enumerate(pending.items()):
            numbers = np.flatnonzero(accepted[place])[: len(places)]
            noise[places[: len(numbers)]] = values[place, numbers]
            used[row] += many if len(numbers) < len(places) else int(numbers[-1]) + 1
            if len(numbers) < len(places):
                left[row] = places[len(numbers) :]
        return left

    def _decide(self, purpose: Purpose, address: Address, number: int, block: bytes) -> int | None:
        from fedveil.native.exact import decide  # loads arithmetic that hardly any run needs

        return decide(block, lambda more: self._streams.hashed(purpose, address, number, more))

    def _room(self, count: int) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
        if len(self._noise) < count:
            self._words, self._noise = np.empty(2 * count, np.uint32), np.empty(count, np.int32)
            self._slow = np.empty(count + 1, np.uint32)
        return self._words[: 2 * count], self._noise[:count]
