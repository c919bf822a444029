"""What rounding can do to a sum of clipped rows, as a share of its sensitivity. `docs/numbers.md` has the proofs.

Two neighbouring data sets give two sums. In real numbers they differ by one clipped row. As computed they may differ
by more: norms, products and additions round, and so does the step to the grid. All of it is taken off the clip, so that
the sensitivity that is declared holds for the numbers that are noised. Only public constants enter.
"""

from __future__ import annotations

import math

from fedveil.core.errors import FedveilError

NORM_MARGIN = 2.0**-12
"""What rounding can do to one row's norm and to the scaled row.

Norms are off by less than 1.3e-4 of themselves (`core.norms`); 2⁻¹² is 2.4e-4, and what is left covers the rounding of
the norm over layers, of a dense layer's product of two norms, of the quotient and of the scaled row.
"""

SINGLE, DOUBLE = 2.0**-24, 2.0**-53
"""Unit round-offs."""

ONE_BLOCK, SHORT_BLOCK = 128, 32
"""Up to `ONE_BLOCK` rows are added in one go, in single precision; more in blocks of `SHORT_BLOCK`, which are added in
double precision."""

LONG_SUM = 10_000
"""From more rows on only the blocks in which two neighbours differ count. Shorter sums do without this argument: it
costs them at most a twenty-fifth of the clip, and they then rest on less."""

BLOCKS_APART = 2
"""So many: that of the record, and that of the one which takes its slot."""

MOST_MARGIN = 0.5


def block_size(rows: int) -> int:
    """How many of a batch's rows are added in single precision."""
    return rows if rows <= ONE_BLOCK else SHORT_BLOCK


def margin(*, rows: int, chain: int, size: int, multiplier: float, unit: float = SINGLE) -> float:
    """How far below its bound a row is clipped: the share of the bound that rounding may need.

    Sums of up to `rows` rows of `size` coordinates are made by chains of at most `chain` additions with round-off
    `unit`, and get noise of `multiplier` times their sensitivity S. Adding errs by at most γ·rows·S for each of two
    neighbours, γ = c·u/(1 − c·u), with two roundings more for the product and the scaling; blocks of a longer sum are
    added in double precision. Of a very long one all blocks but two are the same numbers for both neighbours, if
    records sit in random slots, so that only the roundings of two blocks move them apart. Rounding to a grid of width g
    moves two neighbours apart by at most g·sqrt(size), and 2⁻¹⁰ of that for the division by g.
    """
    reach = (chain + 2) * unit
    single = reach / (1 - reach) if reach < 0.5 else math.inf
    double = (rows + 2) * 2 * DOUBLE
    alike = unit == SINGLE and rows > LONG_SUM  # all other blocks
    adding = 2 * (BLOCKS_APART * chain if alike else rows) * single + 2 * rows * double
    to_grid = multiplier * math.sqrt(size) * 2.0**-24 * (1 + 2.0**-10)
    total = NORM_MARGIN + adding + to_grid
    if total > MOST_MARGIN:
        raise FedveilError(
            f"noise of {multiplier:g} times the sensitivity on sums of {rows} rows of {size} coordinates: rounding"
            " would take more than half of the clip; use less noise or smaller batches"
        )
    return total
