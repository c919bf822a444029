"""Sending only part of an update. What is not sent counts as zero at the server.

Compression comes after all noise that the client adds, so it is post-processing and costs no privacy. How many entries
are sent is a constant, so the number says nothing about the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedveil.core.checks import FieldError, one_of, within
from fedveil.core.deferred import torch
from fedveil.core.streams import Address, Purpose, Streams

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Prune:
    """Drops the share `ratio` of the entries that are smallest in size (communication-efficient learning)."""

    kind: ClassVar[str] = "prune"
    ratio: float

    def __post_init__(self) -> None:
        within("ratio", self.ratio, 0, 1)

    def kept(self, size: int) -> int:
        """How many of `size` entries are sent."""
        return max(math.ceil((1 - self.ratio) * size), 1)

    def apply(self, updates: Tensor, addresses: Sequence[Address], streams: Streams) -> Tensor:
        """The updates `[K, P]` with all but the largest entries zero."""
        return keep_largest(updates, self.kept(updates.shape[-1]))


@dataclass(frozen=True)
class Share:
    """Sends only the share `fraction` of the entries, the `largest` or `random` ones (Shokri and Shmatikov 2015)."""

    kind: ClassVar[str] = "share"
    fraction: float
    choice: str = "largest"

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise FieldError("fraction", f"must be above 0 and at most 1, not {self.fraction}")
        one_of("choice", self.choice, ("largest", "random"))

    def kept(self, size: int) -> int:
        """How many of `size` entries are sent."""
        return max(math.ceil(self.fraction * size), 1)

    def apply(self, updates: Tensor, addresses: Sequence[Address], streams: Streams) -> Tensor:
        """The updates `[K, P]` with all entries zero but those that are shared."""
        size = updates.shape[-1]
        if self.choice == "largest":
            return keep_largest(updates, self.kept(size))
        sent = torch.zeros_like(updates)
        for k, address in enumerate(addresses):
            order = streams.generator(Purpose.SELECTION, address).permutation(size)
            chosen = torch.from_numpy(order[: self.kept(size)]).to(updates.device)
            sent[k, chosen] = updates[k, chosen]
        return sent


Compression = Prune | Share


def keep_largest(updates: Tensor, count: int) -> Tensor:
    """All but the `count` largest entries of each row set to zero."""
    if count >= updates.shape[-1]:
        return updates
    positions = updates.abs().topk(count, dim=-1, sorted=False).indices
    return torch.zeros_like(updates).scatter_(-1, positions, updates.gather(-1, positions))


def upload_bytes(size: int, kept: int) -> int:
    """Bytes of one update of single-precision numbers: the values, and which they are by bitmap or by index."""
    return 4 * size if kept >= size else 4 * kept + min(4 * kept, -(-size // 8))
