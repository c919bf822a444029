"""The only place where privacy noise is drawn.

Guarantee: what leaves is a sum rounded to a grid of width g = s·2⁻²⁴, plus a Gaussian N(0, s²) rounded to the same
grid, added exactly, as integers. That is the same as rounding the sum of the two real numbers, so whatever holds for
the Gaussian mechanism of standard deviation s on the rounded sum holds for it. The integers have the distribution of a
rounded Gaussian exactly (`native/`; beyond 128 standard deviations, which have 10⁻³⁵⁰⁰ of its mass, there are none),
if AES-256 in counter mode can't be told from random bits. Rounding the sum is paid for by the clip (`arithmetic.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedveil.core.deferred import torch
from fedveil.core.streams import Address, Purpose, Streams
from fedveil.native.tables import SCALE_BITS

if TYPE_CHECKING:
    from torch import Tensor

    from fedveil.native.sampler import Way

STD_CELLS = 1 << SCALE_BITS
"""Cells of the grid in one standard deviation."""


def grid_width(std: float) -> float:
    """g for noise of a standard deviation."""
    return std / STD_CELLS


class NoiseSource:
    """Adds the noise of many streams at once. The integers of a stream depend on its address only."""

    def __init__(self, streams: Streams, way: Way | None = None) -> None:
        from fedveil.native.sampler import WAYS, Sampler  # loads kernels, for whoever draws

        self._sampler = Sampler(streams, way or WAYS[0])

    def add(self, purpose: Purpose, addresses: Sequence[Address], values: Tensor, std: float) -> None:
        """Round `values` `[K, P]` (single or double precision) to the grid of `std` and add its noise, in place.

        Row `i` draws from the stream at `addresses[i]`. The sampler works in the memory of the host: values on another
        device are copied there and, with their noise, back.
        """
        if values.is_contiguous() and values.device.type == "cpu":
            self._sampler.release(purpose, addresses, values.numpy(), grid_width(std))
        else:
            packed = values.cpu().contiguous()
            self._sampler.release(purpose, addresses, packed.numpy(), grid_width(std))
            values.copy_(packed)

    def integers(self, purpose: Purpose, addresses: Sequence[Address], size: int) -> Tensor:
        """The noise by itself, in cells: `[len(addresses), size]` int32."""
        values = torch.empty(len(addresses), size, dtype=torch.int32, device="cpu")
        self._sampler.release(purpose, addresses, values.numpy(), 0.0)
        return values
