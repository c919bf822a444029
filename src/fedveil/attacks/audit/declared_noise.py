"""What a declaration says of a client that holds nothing, and of how far one unit may move what it sends.

A client without records has gradients of zero, so what it sends is noise alone. With plain SGD, η the learning rate, B
the declared batch and L the steps, its update is N(0, (η·sum_std/B)²·L) in every coordinate if examples are noised, and
N(0, sum_std²) if updates are; a record of sensitivity S moves it by at most η·S/B each time it is used. Whatever else
a client does with its noisy sums (momentum, Adam, weight decay) is post-processing: the promise does not count on it,
so for these comparisons it is left out (`plain`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedveil.core.types import Declaration, Receipt, Unit, View
from fedveil.method import Method
from fedveil.parts.optimisers import Sgd

ROUNDING_OF_STEPS = 6e-8
"""Single precision rounds a parameter by at most this share of itself in every step."""

NEGLIGIBLE = 5e-3
"""Rounding of at most this share of the noise does not show in its size."""


def plain(method: Method) -> Method:
    """The same method with plain SGD and without weight decay on the clients."""
    local = replace(method.local, optimiser=Sgd(), decay=0.0)
    return method if local == method.local else replace(method, local=local)


@dataclass(frozen=True)
class DeclaredRound:
    """What was declared to a client for one round of a plain method, by place."""

    method: Method
    round: int
    declarations: tuple[Declaration, ...]

    @staticmethod
    def by(receipts: Iterable[Receipt], method: Method, round: int, client: int) -> DeclaredRound:
        mine = tuple(one.did for one in receipts if one.round == round and one.client == client)
        return DeclaredRound(method, round, mine)

    def at(self, place: str) -> Declaration | None:
        return next((one for one in self.declarations if one.place == place), None)

    @property
    def _scale(self) -> float:
        """η/B: how far a sum of length 1 moves the model."""
        example = self.at("example")
        assert example is not None
        return self.method.local.rate.at(self.round, self.method.rounds) / example.sampling.batch

    def noise(self, view: View, model: Tensor) -> float | None:
        """The standard deviation of what is seen of a client without records; None where that is not known.

        It is not where a clip of the whole update follows the examples' noise, where only some coordinates are sent,
        or where single precision rounds away too much.
        """
        example, upload = self.at("example"), self.at("upload")
        if view is View.ON_DEVICE:
            return None if example is None or example.row_std == 0 else example.row_std
        if self.method.compress is not None or (upload is not None and example is not None):
            return None
        if upload is not None:
            return upload.sum_std or None
        if example is None or example.sum_std == 0:
            return None
        deviation = self._scale * example.sum_std * math.sqrt(example.steps)
        lost = ROUNDING_OF_STEPS * float(model.square().mean().sqrt()) * math.sqrt(example.steps)
        return deviation if lost <= NEGLIGIBLE * deviation else None

    def reach(self, unit: Unit, view: View, replaced: bool, uses: int) -> float | None:
        """How far one unit, used so often, may move what is seen; None where that is not known."""
        example, upload, both = self.at("example"), self.at("upload"), 2.0 if replaced else 1.0
        if view is View.ON_DEVICE:
            return None if example is None else both * example.sensitivity
        if self.method.compress is not None:
            return None
        if upload is not None:  # a record moves its client's update within the clipping ball
            return upload.sensitivity * (2.0 if unit is Unit.RECORD else both)
        if example is None or unit is Unit.CLIENT:
            return None
        return both * example.sensitivity * self._scale * uses


def spread_coordinates(parts: Sequence[slice], most: int) -> Tensor:
    """At most about `most` coordinates, evenly spread over each of the parts."""
    each = max(most // len(parts), 1)
    chosen = []
    for part in parts:
        size = part.stop - part.start
        chosen.append(part.start + torch.arange(min(each, size)) * size // min(each, size))
    return torch.cat(chosen)
