"""The only place where privacy noise is drawn.

Standard Gaussians by Box–Muller on AES counter-mode bits: 32 bits for the angle, 32 for the radius, and 64 more for a
radius in the far tail (one in two million), so its uniform is never coarser than a thousandth of itself and goes down
to 2⁻⁹⁶: tails reach 11.5 standard deviations, beyond which a Gaussian has 1e-30 of its mass. That is as fast as
PyTorch's own generator, and unlike it cannot be predicted or guessed (PyTorch seeds its generator from 32 bits).

The Gaussians are float32; the classical analysis assumes real numbers. This is the usual idealisation of the field and
a caveat of every guarantee computed from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fedveil.core.streams import Address, Purpose, Streams

_BLOCK = 16  # bytes of one AES block
_LANES = 64  # floats; a multiple of every vector loop's step
_FAR = 2**10  # radius words below it are extended


class NoiseSource:
    """Draws the Gaussians of many streams at once into buffers it keeps."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._work = _Workspace(rows=0, size=0)

    def standard_normal(self, purpose: Purpose, addresses: Sequence[Address], size: int) -> Tensor:
        """`[len(addresses), size]` independent N(0, 1), row `i` from the stream at `addresses[i]`.

        The values of a row depend on its address and `size` only. The tensor is overwritten by the next call.
        """
        count = len(addresses)
        if self._work.size != size or self._work.rows < count:
            self._work = _Workspace(rows=count, size=size)
        work = self._work
        for row, address in enumerate(addresses):
            self._streams.fill(purpose, address, work.zeros, work.memory[row])
        half = work.half
        radius, angle = work.radius[:count], work.angle[:count]
        # |signed word + ½| is uniform on ½, 1½, …, 2³¹ − ½, with full precision near zero.
        radius.copy_(work.words[:count, :half]).add_(0.5).abs_()
        rows = [row for row, least in enumerate(torch.amin(radius, dim=-1).tolist()) if least < _FAR]
        far = [(row, column) for row in rows for (column,) in (radius[row] < _FAR).nonzero().tolist()]
        radius.mul_(2.0**-31).log_().mul_(-2.0).sqrt_()
        for row, column in far:
            radius[row, column] = self._far_radius(purpose, addresses[row], work, row, column)
        angle.copy_(work.words[:count, half:]).mul_(2.0 * math.pi * 2.0**-32)
        normal = work.normal[:count]
        torch.cos(angle, out=normal[:, :half])
        torch.sin(angle, out=normal[:, half:])
        normal.view(count, 2, half).mul_(radius.unsqueeze(1))
        return normal[:, :size]

    def _far_radius(self, purpose: Purpose, address: Address, work: _Workspace, row: int, column: int) -> float:
        """sqrt(−2·log u) with 64 bits more of u: those that follow the row's own words in its stream, at `column`."""
        block, place = divmod(len(work.zeros) + 8 * column, _BLOCK)
        more = np.empty(2 * _BLOCK, dtype=np.uint8)  # the cipher wants room for one block more than it fills
        self._streams.fill(purpose, address, bytes(_BLOCK), more.data, block)
        extension = int(more[:_BLOCK].view(np.uint64)[place // 8])
        word = int(work.words[row, column])
        whole = word if word >= 0 else ~word
        return math.sqrt(-2 * math.log((whole + (extension + 0.5) * 2.0**-64) * 2.0**-31))


class _Workspace:
    """Buffers for `rows` streams of `size` Gaussians; allocating them anew would cost more than the drawing."""

    def __init__(self, rows: int, size: int) -> None:
        # Whole vector registers per row: the scalar tail of a vectorised loop rounds differently, and where a
        # row's tail falls must not depend on how many rows there are.
        self.rows, self.size, self.half = rows, size, -(-size // (2 * _LANES)) * _LANES
        length = 2 * self.half * 4
        width = -(-length // _BLOCK) * _BLOCK + _BLOCK  # the cipher wants room for one more block
        self.zeros = bytes(length)
        block = np.empty((rows, width), dtype=np.uint8)
        self.memory = [row.data for row in block]
        self.words = torch.from_numpy(block[:, :length].view(np.int32))
        self.radius = torch.empty(rows, self.half)
        self.angle = torch.empty(rows, self.half)
        self.normal = torch.empty(rows, 2 * self.half)
