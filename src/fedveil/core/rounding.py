"""Numbers in print that must not be rounded in our favour."""

from __future__ import annotations

import math


def rounded_up(epsilon: float, digits: int = 4) -> str:
    """A certified ε, or noise that was solved for, never below what it is."""
    if math.isinf(epsilon):
        return "∞"
    if epsilon <= 0:
        return f"{epsilon:.{digits}g}"
    unit = 10.0 ** (math.floor(math.log10(epsilon)) + 1 - digits)
    return f"{math.ceil(epsilon / unit - 1e-9) * unit:.{digits}g}"


def rounded_down(bound: float, digits: int = 3) -> str:
    """A lower bound, never above what was shown."""
    if not 0 < bound < math.inf:
        return f"{bound:.{digits}g}"
    unit = 10.0 ** (math.floor(math.log10(bound)) + 1 - digits)
    return f"{math.floor(bound / unit + 1e-9) * unit:.{digits}g}"
