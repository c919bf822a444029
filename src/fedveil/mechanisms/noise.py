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
_WORD = 4  # bytes of a random word
_LANES = 64  # floats; a multiple of every vector loop's step
_PIECE = 1 << 15  # pairs drawn at a time: what a dozen passes work on stays in a core's own cache
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
        for start in range(0, work.half, work.width):
            self._draw(purpose, addresses, start)
        return work.normal[:count, :size]

    def _draw(self, purpose: Purpose, addresses: Sequence[Address], start: int) -> None:
        """The pairs from `start` on, as many as make a piece. A stream is all radius words, then all angle words."""
        work, count = self._work, len(addresses)
        half, width = work.half, min(work.width, work.half - start)
        spans = [(0, 0, 2 * half)] if width == half else [(0, start, width), (width, half + start, width)]
        for row, address in enumerate(addresses):
            for target, place, words in spans:
                zeros, out = work.zeros[: _WORD * words], work.memory[row][_WORD * target :]
                self._streams.fill(purpose, address, zeros, out, _WORD * place // _BLOCK)
        radius, angle = work.radius[:count, :width], work.angle[:count, :width]
        # |signed word + ½| is uniform on ½, 1½, …, 2³¹ − ½, with full precision near zero.
        radius.copy_(work.words[:count, :width]).add_(0.5).abs_()
        rows = [row for row, least in enumerate(torch.amin(radius, dim=-1).tolist()) if least < _FAR]
        far = [(row, column) for row in rows for (column,) in (radius[row] < _FAR).nonzero().tolist()]
        radius.mul_(2.0**-31).log_().mul_(-2.0).sqrt_()
        for row, column in far:
            word = int(work.words[row, column])
            radius[row, column] = self._far_radius(purpose, addresses[row], word, 2 * half + 2 * (start + column))
        angle.copy_(work.words[:count, width : 2 * width]).mul_(2.0 * math.pi * 2.0**-32)
        first, second = (work.normal[:count, place : place + width] for place in (start, half + start))
        torch.cos(angle, out=first).mul_(radius)
        torch.sin(angle, out=second).mul_(radius)

    def _far_radius(self, purpose: Purpose, address: Address, word: int, place: int) -> float:
        """sqrt(−2·log u) with 64 bits more of u: the two words at `place`, behind all radius and angle words."""
        block, within = divmod(_WORD * place, _BLOCK)
        more = np.empty(2 * _BLOCK, dtype=np.uint8)  # the cipher wants room for one block more than it fills
        self._streams.fill(purpose, address, bytes(_BLOCK), more.data, block)
        extension = int(more[:_BLOCK].view(np.uint64)[within // 8])
        whole = word if word >= 0 else ~word
        return math.sqrt(-2 * math.log((whole + (extension + 0.5) * 2.0**-64) * 2.0**-31))


class _Workspace:
    """Buffers for `rows` streams of `size` Gaussians; allocating them anew would cost more than the drawing."""

    def __init__(self, rows: int, size: int) -> None:
        # Whole vector registers per row: the scalar tail of a vectorised loop rounds differently, and where a
        # row's tail falls must not depend on how many rows there are.
        self.rows, self.size, self.half = rows, size, -(-size // (2 * _LANES)) * _LANES
        self.width = max(min(self.half, _PIECE), 1)
        length = 2 * self.width * _WORD
        self.zeros = memoryview(bytes(length))
        block = np.empty((rows, length + _BLOCK), dtype=np.uint8)  # the cipher wants room for one more block
        self.memory = [row.data for row in block]
        self.words = torch.from_numpy(block[:, :length].view(np.int32))
        self.radius = torch.empty(rows, self.width)
        self.angle = torch.empty(rows, self.width)
        self.normal = torch.empty(rows, 2 * self.half)
