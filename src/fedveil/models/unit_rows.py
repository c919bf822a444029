"""A linear model on rows of numbers, each brought to length 1."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.core.checks import positive
from fedveil.models.features import FixedFeatures

CONSTANT = 0.25
"""What stands behind every row, of numbers between −1 and 1."""


class UnitRows(FixedFeatures):
    """A record's numbers, cut to ±`limit`, with a constant behind them, all divided by their length.

    The constant stands for the bias; it is small, because noise on its weight moves all records together. Length 1
    bounds every example's gradient of a linear model by the length of (p − y), which is at most √2, whatever the
    record; so the clip hardly cuts and no record counts for more than another.
    """

    def __init__(self, input_shape: Sequence[int], limit: float) -> None:
        super().__init__()
        self.limit = limit
        self.outputs = math.prod(input_shape) + 1

    def forward(self, inputs: Tensor) -> Tensor:
        rows = inputs.flatten(1).clamp(-self.limit, self.limit)
        return functional.normalize(torch.cat([rows, torch.full_like(rows[:, :1], CONSTANT)], dim=1), dim=1)


def linear(input_shape: Sequence[int], classes: int, *, limit: float = 1.0) -> nn.Module:
    """Rows of length 1, then one dense layer without a bias that begins at zero: logistic regression.

    `limit` cuts single numbers first; those of a schema lie within 1 anyway.
    """
    positive("limit", limit)
    features = UnitRows(input_shape, limit)
    head = nn.Linear(features.outputs, classes, bias=False)
    nn.init.zeros_(head.weight)
    return nn.Sequential(OrderedDict(features=features, head=head))
