"""Words that one part of the project says and another looks for, and numbers that must not be rounded down."""

from __future__ import annotations

import math

SEEDED = "not private: seeded"
"""The caveat of everything that a seed makes predictable."""

LEAKED = "NOT private as it stands"
"""How the accountant's caveat begins where a clipping bound is read from the data without noise."""

ONE_COPY = "speaks of one client's copy"
"""How the caveat begins where other clients hold copies of a record."""

SCALED = "features are scaled by the means and deviations of all training records together, which ε leaves out"
"""The caveat of data sets whose numbers are brought to one scale before anybody trains on them."""

NOBODY_LEFT = "nobody could take part any more (a limit or a budget)"
"""Why a run ended before its last round."""

SPOILING = (LEAKED, SEEDED, ONE_COPY, SCALED)
"""Caveats without which an ε is never printed, however short the line."""


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
