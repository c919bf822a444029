"""What the sampler needs of its tables, proved for the numbers that are stored, with interval arithmetic.

Together with `twin.py` this says: a draw has exactly the distribution of N(0, S²) rounded to an integer, S = 2²⁴, given
random bits. The alias table gives each knot its weight exactly. In every cell of every bin the hats stay below the
Gaussian, so that what is missing is a probability; it stays below what the bin proposes, so that rejection can give it;
and the polynomial in whole numbers is never further than `ROOM` from it.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from make_tables import make, text
from mpmath import iv, mp

from fedveil.native import tables
from fedveil.native.exact import CELLS_PER_STD, KNOT, acceptance, cell, hats
from fedveil.native.tables import (
    ALIAS,
    BINS,
    COEFFICIENTS,
    DEGREE,
    ENDS,
    FIRST,
    FIXED_BITS,
    HATS,
    KNOT_BITS,
    SLOW,
    UNIT,
    UNIT_BITS,
    WEIGHT_BITS,
)
from fedveil.native.twin import ROOM

PIECES = 16  # of a bin, each bounded by itself


@pytest.fixture(autouse=True)
def precision() -> object:
    before = iv.prec
    iv.prec = 200
    yield
    iv.prec = before


def test_the_stored_tables_are_those_that_are_made() -> None:
    made = make()
    stored = {name: getattr(tables, name) for name in made}
    assert stored == {name: tuple(value) if isinstance(value, list) else value for name, value in made.items()}
    assert Path(tables.__file__).read_text(encoding="utf-8") == text(made)


def test_the_alias_table_gives_every_knot_its_weight_exactly() -> None:
    weights: Counter[int] = Counter()
    for column, entry in enumerate(ALIAS):
        own = column if column < 32 else column - 64
        other = entry & 63
        weights[own] += entry >> 16
        weights[other if other < 32 else other - 64] += (1 << 16) - (entry >> 16)
    expected = {knot - len(HATS) // 2: weight for knot, weight in enumerate(HATS)} | {-32: SLOW}
    assert {knot: weight for knot, weight in weights.items() if weight} == {k: w for k, w in expected.items() if w}
    assert sum(expected.values()) == 1 << WEIGHT_BITS


def test_all_units_of_the_proposals_fit_into_a_word_with_one_left_for_what_is_far_out() -> None:
    assert len(ENDS) == BINS + 1
    assert ENDS[0] == 0
    assert all(a < b for a, b in pairwise(ENDS))
    assert ENDS[-1] < 2**32


def missing(low: int, high: int) -> object:
    """An interval that holds w·(probability − hats) of every cell from `low` to `high`, within one bin.

    The cell's probability as a function of its middle x is (φ * box)(x); a Taylor expansion of w/S·φ around the piece's
    middle, with the remainder and the box bounded, minus the hats, which are linear in a bin.
    """
    middle, reach = iv.mpf(low + high) / 2 / CELLS_PER_STD, iv.mpf(high - low + 1) / 2 / CELLS_PER_STD
    offset = reach * iv.mpf([-1, 1])
    density = iv.exp(-middle * middle / 2) / iv.sqrt(2 * iv.pi)
    # φ(middle + t) = φ(middle)·exp(−middle·t − t²/2): the exponent is small, so intervals stay tight.
    bin_, width = low // KNOT, iv.mpf(KNOT)
    left, right = (hats(bin_ * KNOT), hats((bin_ + 1) * KNOT))
    slope = (iv.mpf(right.numerator) / right.denominator - iv.mpf(left.numerator) / left.denominator) / width
    at_middle = iv.mpf(left.numerator) / left.denominator + slope * (iv.mpf(low + high) / 2 - bin_ * KNOT)
    first = -middle * density / CELLS_PER_STD - slope * CELLS_PER_STD  # the derivative at the middle of (cell − hats)
    curve = iv.mpf([-1, 1]) * _second_derivative(middle, reach) / CELLS_PER_STD * reach * reach / 2
    box = iv.mpf([-1, 1]) * _second_derivative(middle, reach) / CELLS_PER_STD / (24 * iv.mpf(CELLS_PER_STD) ** 2)
    return (density / CELLS_PER_STD - at_middle + first * offset + curve + box) * width


def _second_derivative(middle: object, reach: object) -> object:
    """A bound of |φ″| = |x² − 1|·φ near a point."""
    near = middle + (reach + iv.mpf(1) / CELLS_PER_STD) * iv.mpf([-1, 1])
    return abs(near * near - 1) * iv.exp(-near * near / 2) / iv.sqrt(2 * iv.pi)


@pytest.mark.parametrize("bin_", range(BINS))
def test_what_hats_leave_of_every_cell_is_a_probability_that_its_bin_can_propose(bin_: int) -> None:
    start, most = (FIRST + bin_) * KNOT, iv.mpf((ENDS[bin_ + 1] - ENDS[bin_]) * UNIT) / (1 << UNIT_BITS)
    waiting = [(start + piece * KNOT // PIECES, start + (piece + 1) * KNOT // PIECES - 1) for piece in range(PIECES)]
    while waiting:
        low, high = waiting.pop()
        left = missing(low, high)
        if left.a >= 0 and left.b <= most.a:  # type: ignore[attr-defined]
            continue
        assert high - low > 64, f"cells {low} to {high}: {left} of {most}"
        middle = (low + high) // 2
        waiting += [(low, middle), (middle + 1, high)]


@pytest.mark.parametrize("bin_", range(BINS))
def test_the_polynomial_in_whole_numbers_is_never_further_off_than_its_room(bin_: int) -> None:
    """Exact Taylor coefficients against the stored ones, plus what the rounding of Horner's scheme can add."""
    half, width = iv.mpf(KNOT) / (2 * CELLS_PER_STD), iv.mpf(ENDS[bin_ + 1] - ENDS[bin_])
    scale = iv.mpf(KNOT) / (width * UNIT) * (1 << UNIT_BITS) * (1 << FIXED_BITS)
    centre = (iv.mpf(2 * (FIRST + bin_) + 1) / 2) * KNOT / CELLS_PER_STD
    density = iv.exp(-centre * centre / 2) / iv.sqrt(2 * iv.pi)
    hermite = [iv.mpf(1), centre]
    while len(hermite) < DEGREE + 12:
        hermite.append(centre * hermite[-1] - (len(hermite) - 1) * hermite[-2])
    box = [iv.mpf(1) / 2 ** (2 * j) / mp.factorial(2 * j + 1) / iv.mpf(CELLS_PER_STD) ** (2 * j) for j in range(3)]
    # The k-th derivative of φ * box is Σ_j box_j·φ^(k + 2j); the rest of both series is far below one unit.
    derivative = lambda k: sum((-1) ** k * box[j] * hermite[k + 2 * j] for j in range(3)) * density / CELLS_PER_STD  # noqa: E731
    error, stored = iv.mpf(0), COEFFICIENTS[bin_]
    left, right = (hats((FIRST + bin_ + side) * KNOT) for side in (0, 1))
    for k in range(DEGREE + 6):
        exact = derivative(k) * half**k / mp.factorial(k)
        if k < 2:
            share = (left + right) / 2 if k == 0 else (right - left) / 2
            exact -= iv.mpf(share.numerator) / share.denominator
        error += abs(exact * scale - (stored[k] if k <= DEGREE else 0))
    k = DEGREE + 6
    nearest = max(abs(centre.mid) - half.mid, 0)
    tail = iv.mpf("1.0865") * iv.sqrt(mp.factorial(k)) * iv.exp(-(iv.mpf(nearest) ** 2) / 4) / CELLS_PER_STD
    error += 2 * abs(tail * half**k / mp.factorial(k) * scale)
    assert (error + DEGREE + 2).b < ROOM  # every shift rounds down by less than one; one more for the series


def test_no_product_of_the_polynomial_leaves_64_bits() -> None:
    for terms in COEFFICIENTS:
        assert (sum(abs(term) for term in terms) + DEGREE) << (KNOT_BITS - 1) < 2**63


@pytest.mark.parametrize("n", [0, 1, -1, 12345, KNOT, -7 * KNOT + 5, 95 * KNOT, -96 * KNOT])
def test_a_cells_probability_is_that_of_the_gaussian(n: int) -> None:
    with mp.workprec(300):
        side = 1 if n < 0 else -1
        edges = [mp.ncdf(side * (mp.mpf(n) + shift) / CELLS_PER_STD) for shift in (mp.mpf(-1) / 2, mp.mpf(1) / 2)]
        expected = abs(edges[1] - edges[0])
        iv.prec = 260
        found = cell(n, terms=6)
        assert mp.mpf(found.a) <= expected * (1 + mp.mpf(2) ** -180)
        assert mp.mpf(found.b) >= expected * (1 - mp.mpf(2) ** -180)
        assert mp.mpf(found.b) - mp.mpf(found.a) < expected * mp.mpf(2) ** -100


@pytest.mark.parametrize("bin_", [0, 3, 60, 95, 96, 130, 191])
def test_acceptance_gets_as_sharp_as_asked(bin_: int) -> None:
    n = (FIRST + bin_) * KNOT + 4321
    coarse, fine = acceptance(bin_, n, 64), acceptance(bin_, n, 576)
    assert 0 <= coarse[0] <= coarse[1] <= 2**64
    assert coarse[1] - coarse[0] <= 2
    assert fine[1] - fine[0] <= 2
    assert Fraction(coarse[0], 2**64) <= Fraction(fine[0], 2**576)
    assert Fraction(fine[1], 2**576) <= Fraction(coarse[1], 2**64)


@pytest.mark.parametrize("n", [96 * KNOT, -96 * KNOT - 1, 2**31 - 1, -(2**31), 40 * CELLS_PER_STD])
def test_what_is_far_out_is_a_probability_too(n: int) -> None:
    low, high = acceptance(None, n, 64 + 512 * 40)
    assert 0 <= low <= high < 2 ** (64 + 512 * 40)


def test_near_values_are_never_taken_from_far_out() -> None:
    assert acceptance(None, 5, 64) == (0, 0)
