"""What L-BFGS remembers of many attacks at once, and the descent that follows from it.

The compact form of Byrd, Nocedal and Schnabel (1994): −H·g from two passes over the pairs (s, y) and products with
small matrices in between. Instead of the triangular matrix R of the s·y its inverse is kept: a new pair adds a column,
and the oldest leaves by having its row and column set to zero. So pairs may lie in any order, and nothing is solved.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True)
class Memory:
    """The last m pairs of A attacks, changed in place."""

    pairs: Tensor  # [A, 2m, n]: steps s, then changes of slope y
    written: Tensor  # [A] int64: pairs since the attack began or forgot; the next goes to this place, modulo m
    inverse: Tensor  # [A, m, m] float64: of R
    squares: Tensor  # [A, m, m] float64: y·y
    curvature: Tensor  # [A, m] float64: each pair's s·y
    scale: Tensor  # [A] float64: of the first approximation, H₀
    along: Tensor  # [A, 2m] float64: pairs · slope

    @staticmethod
    def empty(attacks: int, history: int, size: int) -> Memory:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(attacks, *shape, dtype=torch.float64)

        return Memory(
            pairs=torch.zeros(attacks, 2 * history, size),
            written=torch.zeros(attacks, dtype=torch.int64),
            inverse=zeros(history, history),
            squares=zeros(history, history),
            curvature=zeros(history),
            scale=zeros() + 1,
            along=zeros(2 * history),
        )

    @property
    def history(self) -> int:
        return self.curvature.shape[1]

    def keep(self, staying: Tensor) -> Memory:
        return Memory(*(getattr(self, field.name)[staying] for field in fields(self)))

    def forget(self, attacks: Tensor) -> None:
        """As if these had just begun."""
        if not attacks.any():  # the usual case, in which a masked write would still go through the whole history
            return
        for held in (self.pairs, self.written, self.inverse, self.squares, self.curvature, self.along):
            held[attacks] = 0
        self.scale[attacks] = 1

    def remember(self, attacks: Tensor, step: Tensor, change: Tensor, curvature: Tensor, slopes: Tensor) -> None:
        """Take in a pair of each of the `attacks` `[A]` (bool), with s·y > 0, and the new `slopes` `[A, n]` of all."""
        rows = attacks.nonzero().squeeze(1)
        places, history = self.written[rows] % self.history, self.history
        self.pairs[rows, places] = step[rows]
        self.pairs[rows, history + places] = change[rows]
        # One pass over the history serves the products of the pairs and the next direction.
        products = torch.bmm(torch.stack([change, slopes], dim=1), self.pairs.mT).double()
        self.along.copy_(products[:, 1])
        with_s, with_y = products[rows, 0, :history], products[rows, 0, history:]
        positive = curvature[rows].double()
        self.inverse[rows, places] = 0
        self.inverse[rows, :, places] = 0
        self.inverse[rows, :, places] = -(self.inverse[rows] @ with_s[:, :, None]).squeeze(2) / positive[:, None]
        self.inverse[rows, places, places] = 1 / positive
        self.squares[rows, places] = with_y
        self.squares[rows, :, places] = with_y
        self.curvature[rows, places] = positive
        self.scale[rows] = positive / self.squares[rows, places, places].clamp_min(1e-300)
        self.written[rows] += 1

    def descent(self, slopes: Tensor) -> Tensor:
        """−H·slope for the slopes that were last taken in."""
        history, scale = self.history, self.scale[:, None, None]
        along_s, along_y = self.along[:, :history, None], self.along[:, history:, None]
        solved = self.inverse @ along_s
        inner = self.curvature[:, :, None] * solved + scale * (self.squares @ solved - along_y)
        weights = torch.cat([self.inverse.mT @ inner, -scale * solved], dim=1).to(slopes.dtype)
        combined = torch.bmm(weights.mT, self.pairs).squeeze(1)
        return -torch.addcmul(combined, self.scale.to(slopes.dtype)[:, None], slopes)
