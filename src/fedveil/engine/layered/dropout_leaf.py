"""Random layers: every client draws from its own seed, so that its draws do not depend on who is beside it."""

from __future__ import annotations

from torch import Tensor, nn

from fedveil.engine.layered.held import Held
from fedveil.engine.layered.step import LeafStep, outside


def dropped(step: LeafStep, values: Tensor, rate: float, channels: int | None = None) -> Tensor:
    """Some of `[N, …]` are 0 and the others larger; with `channels`, that many last axes share their fate."""
    shape = values.shape[1:]
    if channels is not None:
        shape = shape[: len(shape) - channels]
    mask = step.masks(shape, 1.0 - rate, values)
    return values * mask.view(*mask.shape, *(1,) * (values.dim() - mask.dim()))


class HeldDropout(Held, nn.Dropout):
    """`nn.Dropout`; of whole channels where `AXES` says how many axes a channel has."""

    AXES: int | None = None

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return input
        if self.AXES is not None and input.dim() != self.AXES + 2:
            raise self.refuse(f"it takes {self.AXES + 2} axes here")
        out: Tensor = outside(self.step, self._dropped, input)
        return input.copy_(out) if self.inplace else out

    def _dropped(self, whole: Tensor) -> Tensor:
        return whole * 0 if self.p == 1 else dropped(self.step, whole, self.p, self.AXES)


class HeldLineDropout(HeldDropout):
    AXES = 1


class HeldPictureDropout(HeldDropout):
    AXES = 2


class HeldVolumeDropout(HeldDropout):
    AXES = 3
