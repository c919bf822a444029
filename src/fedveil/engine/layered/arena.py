"""Memory of one step, kept for the next: fresh pages cost more than the arithmetic done on them."""

from __future__ import annotations

import torch
from torch import Tensor


class Arena:
    """Hands out buffers in the order in which a step asks for them; the next step asks in the same order."""

    def __init__(self) -> None:
        self._kept: list[Tensor] = []
        self._shared: dict[tuple[object, ...], Tensor] = {}
        self._taken = 0

    def begin(self) -> None:
        """A new step: what was handed out may be overwritten."""
        self._taken = 0

    def take(self, like: Tensor, *shape: int) -> Tensor:
        """Memory that is this step's, not initialised, of the kind of `like`."""
        index, self._taken = self._taken, self._taken + 1
        if index < len(self._kept):
            kept = self._kept[index]
            if kept.shape == shape and kept.dtype == like.dtype and kept.device == like.device:
                return kept
        made = torch.empty(shape, dtype=like.dtype, device=like.device)
        self._kept[index:] = [made]
        return made

    def scratch(self, like: Tensor, use: str, *shape: int, border: tuple[int, ...] | None = None) -> Tensor:
        """Memory for a moment, shared by all who ask for this use and shape.

        With a `border` it is zero when it is made. Whoever writes leaves the border as it is.
        """
        key = (use, shape, border, like.dtype, like.device)
        if key not in self._shared:
            make = torch.empty if border is None else torch.zeros
            self._shared[key] = make(shape, dtype=like.dtype, device=like.device)
        return self._shared[key]
