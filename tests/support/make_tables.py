"""Finds the numbers of `tables.py`; `python tests/support/make_tables.py > src/fedveil/native/tables.py` writes them.

Nothing has to be believed about how they are found: `tests/native/test_tables.py` proves what the sampler needs of the
numbers that are stored, with interval arithmetic.
"""

from __future__ import annotations

import textwrap

import mpmath as mp
import numpy as np
from scipy.optimize import linprog
from scipy.sparse import lil_matrix

SCALE_BITS, KNOT_BITS, WEIGHT_BITS, UNIT_BITS, FIXED_BITS = 24, 21, 22, 64, 40
DEGREE = 12
HATS = 31  # knots on each side of 0 that have a hat
FIRST, BINS = -96, 192  # bins [i·w, (i+1)·w) of an eighth of a standard deviation each: 12 standard deviations
POINTS = 64  # where the linear program holds the hats below the density, in each bin

SCALE, KNOT, WEIGHTS = 1 << SCALE_BITS, 1 << KNOT_BITS, 1 << WEIGHT_BITS


def hat_weights() -> dict[int, int]:
    """Weights of the hats, in 2⁻²²: as much of the density as hats below it can cover."""
    count = 2 * HATS + 1
    width = KNOT / SCALE
    below = lil_matrix((2 * (HATS + 1) * (POINTS + 1), count))
    limits = np.zeros(below.shape[0])
    row = 0
    for left in range(-HATS - 1, HATS + 1):
        for point in range(POINTS + 1):
            part = point / POINTS
            for knot, share in ((left, 1 - part), (left + 1, part)):
                if -HATS <= knot <= HATS:
                    below[row, knot + HATS] += share
            at = (left + part) * width
            limits[row] = width * np.exp(-at * at / 2) / np.sqrt(2 * np.pi) * (1 - 1e-5)
            row += 1
    found = linprog(-np.ones(count), A_ub=below.tocsr(), b_ub=limits, bounds=(0, None), method="highs").x
    symmetric = (found + found[::-1]) / 2
    return {knot: int(symmetric[knot + HATS] * WEIGHTS) for knot in range(-HATS, HATS + 1)}


def alias_table(weights: dict[int, int]) -> list[int]:
    """64 columns of 2¹⁶ (Walker 1977), exact: threshold·2¹⁶ + the 6 bits of the knot that the rest belongs to."""
    full = WEIGHTS // 64
    left = dict(weights)
    columns: dict[int, tuple[int, int]] = {}
    small = [knot for knot in left if left[knot] < full]
    large = [knot for knot in left if left[knot] >= full]
    while small:
        knot = small.pop()
        giver = large[-1]
        columns[knot % 64] = (left[knot], giver)
        left[giver] -= full - left[knot]
        if left[giver] < full:
            small.append(large.pop())
    for knot in large:
        columns[knot % 64] = (0, knot)  # a full column: everything belongs to its own knot
    return [(columns[column][0] << 16) | (columns[column][1] % 64) for column in range(64)]


def residual(bin_: int, weights: dict[int, int]) -> list[mp.mpf]:
    """Coefficients in u = (r − w/2)/(w/2) of w·(probability of the cell − the hats' part of it) on a bin."""
    half_cell, half_bin = mp.mpf(1) / (2 * SCALE), mp.mpf(KNOT) / (2 * SCALE)
    centre = (mp.mpf(FIRST + bin_) + mp.mpf(1) / 2) * KNOT / SCALE
    above, below = derivatives(centre + half_cell), derivatives(centre - half_cell)
    side = -1 if centre > 0 else 1  # the smaller tail has the digits
    cell = side * (mp.ncdf(side * (centre + half_cell)) - mp.ncdf(side * (centre - half_cell)))
    terms = [cell] + [(above[k - 1] - below[k - 1]) / mp.factorial(k) * half_bin**k for k in range(1, DEGREE + 1)]
    terms = [KNOT * term for term in terms]
    left, right = (mp.mpf(weights.get(FIRST + bin_ + side, 0)) / WEIGHTS for side in (0, 1))
    terms[0] -= (left + right) / 2
    terms[1] -= (right - left) / 2
    return terms


def derivatives(at: mp.mpf) -> list[mp.mpf]:
    """φ, φ′, φ″ … at a point."""
    hermite = [mp.mpf(1), at]
    for k in range(1, DEGREE):
        hermite.append(at * hermite[k] - k * hermite[k - 1])
    density = mp.exp(-at * at / 2) / mp.sqrt(2 * mp.pi)
    return [(-1) ** k * value * density for k, value in enumerate(hermite)]


def make() -> dict[str, object]:
    """All tables, by name."""
    mp.mp.prec = 400
    hats = hat_weights()
    slow = WEIGHTS - sum(hats.values())
    polynomials = [residual(bin_, hats) for bin_ in range(BINS)]
    at = [mp.mpf(k) / 128 - 1 for k in range(257)]
    tops = [max(mp.polyval(terms[::-1], u) for u in at) * (1 + mp.mpf(2) ** -10) for terms in polynomials]
    unit = int(mp.ceil(sum(tops) / ((1 << 32) - 2 * BINS) * mp.mpf(2) ** UNIT_BITS))
    mass = mp.mpf(unit) / mp.mpf(2) ** UNIT_BITS
    units = [int(mp.ceil(top / mass)) for top in tops]
    ends = np.cumsum([0, *units]).tolist()
    assert ends[-1] < 1 << 32
    coefficients = [
        [int(mp.nint(term / (mass * count) * (1 << FIXED_BITS))) for term in terms]
        for terms, count in zip(polynomials, units, strict=True)
    ]
    return {
        "HATS": [hats[knot] for knot in range(-HATS, HATS + 1)],
        "SLOW": slow,
        "ALIAS": alias_table({**hats, -32: slow}),
        "UNIT": unit,
        "ENDS": ends,
        "COEFFICIENTS": coefficients,
    }


def text(tables: dict[str, object]) -> str:
    """The module `tables.py`."""
    lines = [
        '"""Numbers of the sampler (`twin.py`): made by `tests/support/make_tables.py`, proved by `tests/native`."""',
        "",
        "# fmt: off",
        f"SCALE_BITS, KNOT_BITS, WEIGHT_BITS, UNIT_BITS, FIXED_BITS = "
        f"{SCALE_BITS}, {KNOT_BITS}, {WEIGHT_BITS}, {UNIT_BITS}, {FIXED_BITS}",
        f"FIRST, BINS, DEGREE = {FIRST}, {BINS}, {DEGREE}",
    ]
    for name, value in tables.items():
        if isinstance(value, list):
            body = textwrap.fill(", ".join(str(item) for item in value), 116).replace("\n", "\n    ")
            lines.append(f"{name} = (\n    {body},\n)")
        else:
            lines.append(f"{name} = {value}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(text(make()), end="")
