"""Numbers brought to one scale by constants that are known before any record is read.

A mean, a deviation or a range of the records would make every client's features depend on every other client's
records, and no noise covers that. So each feature is made of its own record and of round numbers that follow from what
is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedveil.core.checks import positive
from fedveil.data.schema import NumberColumn


@dataclass(frozen=True)
class PublicScale:
    """(x − centre)/spread. A number that is missing (NaN) is taken for the centre.

    What lies more than `limit` spreads from the centre is cut, so that no number counts for more, however large.
    `logarithm` is for amounts that differ by factors: log(1 + x) stands for x, and amounts below 0 for 0. `centre` and
    `spread` then speak of the logarithm.
    """

    centre: float
    spread: float
    logarithm: bool = False
    limit: float = 5.0

    def __post_init__(self) -> None:
        positive("spread", self.spread)
        positive("limit", self.limit)


def range_scale(low: float, high: float) -> PublicScale:
    """From −1 at `low` to 1 at `high`; what lies outside is cut to that."""
    return PublicScale((low + high) / 2, (high - low) / 2, limit=1.0)


def scaled_columns(values: NDArray[np.float64], scales: Sequence[PublicScale]) -> NDArray[np.float32]:
    """Features [N, F] of measured numbers [N, F], each row by itself."""
    if values.ndim != 2 or values.shape[1] != len(scales):
        raise ValueError(f"{len(scales)} scales for numbers of shape {values.shape}")
    centres = np.array([scale.centre for scale in scales])
    spreads = np.array([scale.spread for scale in scales])
    limits = np.array([scale.limit for scale in scales])
    with np.errstate(over="ignore"):
        measured = np.where([scale.logarithm for scale in scales], np.log1p(np.maximum(values, 0.0)), values)
        features = np.clip((measured - centres) / spreads, -limits, limits)
    return np.where(np.isnan(features), 0.0, features).astype(np.float32)


def number_column(name: str, scale: PublicScale, *, unit: str = "", missing: str = "error") -> NumberColumn:
    """The column of a schema that is scaled alike."""
    low, high = scale.centre - scale.spread, scale.centre + scale.spread
    if scale.logarithm:
        if scale.centre:
            raise ValueError(f"{name}: in a schema an amount of 0 becomes 0")
        low, high = 0.0, math.expm1(scale.spread)
    return NumberColumn(
        name=name,
        low=low,
        high=high,
        unit=unit,
        scale="amount" if scale.logarithm else "linear",
        missing=missing,
        outside="clip",
        reach=scale.limit,
    )
