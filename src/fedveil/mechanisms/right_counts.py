"""Noised counts of right and wrong answers: how good a model is on private records, without showing them.

What is released of N records of C classes: for each class how many of its records the model recognises, and how many
not, and the sum of the records' losses, each cut at a public limit and divided by it. 2C + 1 numbers, with Gaussian
noise of standard deviation σ·sqrt(2) on each.

**Sensitivity.** One record is in one of the 2C counts, with 1, and has at most 1 in the sum of losses. So with and
without it the numbers differ by at most sqrt(2) (L2); where it is exchanged, by at most sqrt(3): two counts by 1, the
losses by 1. N is public, and the place of a record that is gone stays and contributes zero, so no other record's answer
is computed differently. A contribution is rounded *down* to whole cells of the noise's grid before it is added, and
whole numbers are added exactly; so rounding never makes it larger.

**Guarantee.** Gaussian(σ) of one record under add-or-remove, Gaussian(σ·sqrt(2/3)) under replace-one, for whoever sees
the released numbers and what is made of them. Nothing for a whole client, and nothing against someone in the device's
memory, where the answers of single records are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedveil.core.checks import count, positive
from fedveil.core.deferred import torch
from fedveil.core.streams import Address, Purpose
from fedveil.core.types import Declaration, Sampling, Unit
from fedveil.mechanisms.noise import NoiseSource, grid_width

if TYPE_CHECKING:
    from torch import Tensor

EVALUATION = "evaluation"
"""The place of these declarations. They are no part of a training: they compose with it."""

SENSITIVITY, EXCHANGED = math.sqrt(2), math.sqrt(3)


@dataclass(frozen=True)
class RightCounts:
    """Counts of noise multiplier `sigma`, after every `every` rounds and after the last."""

    sigma: float
    every: int = 1

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        count("every", self.every)

    def times(self, rounds: int) -> int:
        """How often a training of so many rounds is measured, at most."""
        return math.ceil(rounds / self.every)

    def declare(self, records: int) -> Declaration:
        """What one measurement does to each of so many records."""
        return Declaration(
            place=EVALUATION,
            unit=Unit.RECORD,
            steps=1,
            bound=1.0,
            sensitivity=SENSITIVITY,
            sum_std=self.sigma * SENSITIVITY,
            row_std=0.0,
            sampling=Sampling("all", records, records, records, 1),
        )


@dataclass(frozen=True)
class NoisedCounts:
    """Counts `[C]` of records, and the sum of their losses; noised ones may be negative."""

    right: Tensor
    wrong: Tensor
    loss: float


def counts_width(classes: int) -> int:
    """How many numbers are released."""
    return 2 * classes + 1


def loss_limit(classes: int) -> float:
    """A larger loss counts as this: twice that of a model that knows nothing."""
    return 2 * math.log(max(classes, 2))


def counted_cells(outputs: Tensor, labels: Tensor, std: float) -> Tensor:
    """What the records `[N, C]`, `[N]` contribute, in whole cells of the grid of the noise: `[2C + 1]`, int64."""
    classes, cells = outputs.shape[1], _cells_of_one(std)
    values = outputs.double()
    right = (values.argmax(dim=1) == labels) & torch.isfinite(values).all(dim=1)
    numbers = torch.bincount(labels + classes * (~right).long(), minlength=2 * classes) * cells
    limit = loss_limit(classes)
    losses = torch.nn.functional.cross_entropy(values, labels, reduction="none").nan_to_num(limit).clamp(0.0, limit)
    return torch.cat([numbers, (losses / limit * cells).floor().long().clamp(max=cells).sum().unsqueeze(0)])


def noised_cells(clean: Tensor, noise: NoiseSource, address: Address) -> Tensor:
    """The counts as they leave: whole cells, as float64, which holds them exactly."""
    return (clean + noise.integers(Purpose.COUNT_NOISE, [address], len(clean))[0]).double()


def read_counts(cells: Tensor, std: float) -> NoisedCounts:
    """What released cells say."""
    numbers = cells / _cells_of_one(std)
    classes = (len(numbers) - 1) // 2
    return NoisedCounts(numbers[:classes], numbers[classes:-1], float(numbers[-1]) * loss_limit(classes))


def _cells_of_one(std: float) -> int:
    return math.floor(1 / grid_width(std))
