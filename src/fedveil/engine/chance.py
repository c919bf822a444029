"""How far chance may take something that is measured from what is declared."""

from __future__ import annotations

import math

from torch import Tensor

MEASURED_DEVIATIONS = 7.0
"""How many standard errors something measured may lie off what is declared."""

NO_CHANCE = -(MEASURED_DEVIATIONS**2) / 2
"""The logarithm of a probability below which something did not happen by chance."""


def as_declared(mean_square: float, declared: float, count: int) -> bool:
    """Whether the mean square of `count` noise coordinates fits a standard deviation of `declared`.

    Relative to its expectation it is χ²/count, whose cube root is close to normal with mean 1 − 2/(9·count) and
    variance 2/(9·count) even for few coordinates (Wilson and Hilferty 1931), so that a small model's missing noise is
    not taken for chance. 1e-3 is room for sums in single precision. Where no noise is declared none may be measured,
    and noise that is declared may not measure zero.
    """
    if declared == 0 or mean_square == 0:
        return mean_square == declared == 0
    low, high = shares_as_declared(count)
    return low <= mean_square / declared**2 <= high


def all_as_declared(mean_squares: Tensor, declared: float, count: int) -> Tensor:
    """The same for each of `[..., n]` mean squares: whether all n of them fit."""
    if declared == 0:
        return (mean_squares == 0).all(dim=-1)
    low, high = shares_as_declared(count)
    shares = mean_squares / declared**2
    return ((mean_squares != 0) & (low <= shares) & (shares <= high)).all(dim=-1)


def shares_as_declared(count: int) -> tuple[float, float]:
    """Between which a mean square of `count` coordinates lies, as a share of the declared variance."""
    variance = 2 / (9 * max(count, 1))
    room = MEASURED_DEVIATIONS * math.sqrt(variance)
    return max(1 - variance - room, 0.0) ** 3 - 1e-3, (1 - variance + room) ** 3 + 1e-3
