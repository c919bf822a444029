"""A linear model on rows of numbers, each brought to length 1."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.core.checks import FieldError, positive
from fedveil.models.features import FixedFeatures
from fedveil.models.layer_counts import row_features

CONSTANT = 0.25
"""What stands behind every row, of numbers between −1 and 1, if nothing else is said."""
NEAR, PEAK = 0.001, 0.1
"""Of half a range: the nearest to its low end that is told from the low end itself, and where the hat is highest."""

MOST_PRODUCTS = 20_000
"""Features that products may make of a row: they are kept in memory for every record."""


class UnitRows(FixedFeatures):
    """A record's numbers, cut to ±`limit`, with a constant behind them, all divided by their length.

    The constant stands for the bias; it is small, because noise on its weight moves all records together. A larger one
    leaves more of what a row says by its length. Length 1
    bounds every example's gradient of a linear model by the length of (p − y), which is at most √2, whatever the
    record; so the clip hardly cuts and no record counts for more than another.

    `low_ends` adds a second number for each, `hat`. `products` adds those of all pairs of the numbers that make the
    row; they have length 1 together, too, and both parts are divided by √2.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        limit: float,
        *,
        constant: float = CONSTANT,
        low_ends: bool = False,
        products: bool = False,
    ) -> None:
        super().__init__()
        self.limit, self.constant, self.low_ends, self.products = limit, constant, low_ends, products
        self.outputs = row_features(math.prod(input_shape), low_ends=low_ends, products=products)

    def forward(self, inputs: Tensor) -> Tensor:
        rows = inputs.flatten(1).clamp(-self.limit, self.limit)
        parts = [rows, hat(rows / self.limit)] if self.low_ends else [rows]
        unit = functional.normalize(torch.cat([*parts, torch.full_like(rows[:, :1], self.constant)], dim=1), dim=1)
        return with_products(unit) if self.products else unit


def hat(rows: Tensor) -> Tensor:
    """Where numbers between −1 and 1 lie above −1, on a scale of factors: 0 at −1, 1 at −0.9, and 0 again from 0 on.

    Amounts are often skewed: most of them are a thousandth or a hundredth of the highest that can occur, and on the
    scale of their range they look alike. Flags, which are 0 and 1, have nothing added.
    """
    above = (1 + rows).clamp(min=0)
    rising = (above / NEAR).log1p() / math.log1p(PEAK / NEAR)
    falling = above.clamp(min=NEAR).log() / math.log(PEAK)
    return torch.minimum(rising, falling).clamp(min=0)


def with_products(unit: Tensor) -> Tensor:
    """Rows of length 1 and the products of all pairs of their numbers, of length 1 together."""
    first, second = torch.triu_indices(unit.shape[1], unit.shape[1])
    twice = (2 - (first == second).to(unit)).sqrt()  # a pair of two numbers stands for both of its orders
    return torch.cat([unit, unit[:, first] * unit[:, second] * twice], dim=1) / math.sqrt(2)


def linear(
    input_shape: Sequence[int],
    classes: int,
    *,
    limit: float = 1.0,
    constant: float = CONSTANT,
    low_ends: bool = False,
    products: bool = False,
) -> nn.Module:
    """Rows of length 1, then one dense layer without a bias that begins at zero: logistic regression.

    `limit` cuts single numbers first; those of a schema lie within 1 anyway. `constant` stands behind them. `low_ends`
    shows skewed amounts by factors, `products` how numbers act together.
    """
    positive("limit", limit)
    positive("constant", constant)
    for field, value in (("low_ends", low_ends), ("products", products)):
        if not isinstance(value, bool):
            raise FieldError(field, f"must be true or false, not {value!r}")
    number = row_features(math.prod(input_shape), low_ends=low_ends, products=products)
    if products and number > MOST_PRODUCTS:
        raise FieldError("products", f"would make {number:,} features of every record; {MOST_PRODUCTS:,} are allowed")
    features = UnitRows(input_shape, limit, constant=constant, low_ends=low_ends, products=products)
    head = nn.Linear(features.outputs, classes, bias=False)
    nn.init.zeros_(head.weight)
    return nn.Sequential(OrderedDict(features=features, head=head))
