"""The decisions of the sampler that forty bits can't make, with as many digits as they take."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import count
from math import factorial
from typing import Any

from mpmath import iv, mp

from fedveil.native.tables import ENDS, FIRST, HATS, KNOT_BITS, SCALE_BITS, UNIT, UNIT_BITS, WEIGHT_BITS

KNOT, CELLS_PER_STD = 1 << KNOT_BITS, 1 << SCALE_BITS
BITS_MORE = 512

_CRAMER = "1.0865"  # |He_k(x)| ≤ 1.0865·sqrt(k!)·exp(x²/4) (Abramowitz and Stegun 22.14.17)


def cell(n: int, terms: int) -> Any:
    """An interval that holds P(N(0, S²) rounds to n) = ∫ φ over [(n − ½)/S, (n + ½)/S], in `iv`'s precision.

    φ(x + s) = φ(x)·Σ (−1)^k·He_k(x)·s^k/k!; odd powers cancel over a symmetric cell. What is left out after `terms`
    even powers is bounded by Taylor's remainder with Cramér's bound.
    """
    half = iv.mpf(1) / (2 * CELLS_PER_STD)
    x = iv.mpf(n) / CELLS_PER_STD
    density = 1 / iv.sqrt(2 * iv.pi)
    before, hermite, power, total = iv.mpf(0), iv.mpf(1), iv.mpf(1), iv.mpf(0)
    for k in range(2 * terms):
        if k % 2 == 0:
            total += hermite * power / (k + 1)
        before, hermite = hermite, x * hermite - k * before
        power = power * half / (k + 1)
    nearest = max(abs(n) - 1, 0)  # a cell closer to 0 than any point of this one
    slope = (
        iv.mpf(_CRAMER) * iv.sqrt(iv.mpf(factorial(2 * terms))) * iv.exp(-((iv.mpf(nearest) / CELLS_PER_STD) ** 2) / 4)
    )
    rest = slope * power
    return 2 * half * density * (iv.exp(-x * x / 2) * total + rest * iv.mpf([-1, 1]))


def hats(n: int) -> Fraction:
    """The part of a cell's probability that hats cover."""
    knot, place = divmod(n, KNOT)
    left, right = (_hat(knot), _hat(knot + 1))
    return Fraction(left * (KNOT - place) + right * place, KNOT * KNOT << WEIGHT_BITS)


def acceptance(bin_: int | None, n: int, bits: int) -> tuple[int, int]:
    """Bounds, in 2^−bits, of the probability to accept `n`, proposed by a bin or (None) from far out."""
    with _precision(bits + 128):
        share = cell(n, terms=2 + bits // 40)
        if bin_ is None:
            near = FIRST * KNOT <= n < -FIRST * KNOT
            share = iv.mpf(0) if near else share * 2**32
        else:
            covered = hats(n)
            share = (share - iv.mpf(covered.numerator) / covered.denominator) * KNOT / (ENDS[bin_ + 1] - ENDS[bin_])
        scaled = share / UNIT * (1 << UNIT_BITS + bits)
        return int(mp.floor(mp.mpf(scaled.a))), int(mp.ceil(mp.mpf(scaled.b)))


@contextmanager
def _precision(bits: int) -> Iterator[None]:
    """Intervals with so many bits, and ordinary numbers that hold their ends without rounding."""
    before = iv.prec
    try:
        iv.prec = bits
        with mp.workprec(bits):
            yield
    finally:
        iv.prec = before


def decide(block: bytes, more: Callable[[int], bytes]) -> int | None:
    """What the proposal in a block of 16 random bytes comes to: its value, or None where it is rejected.

    A proposal is a uniform real number below the probability of accepting it. As many of its bits are looked at as are
    needed: 64 in the block, then 512 at a time from `more`.
    """
    unit, word, uniform = struct.unpack("<IIQ", block)
    if unit > ENDS[-1]:
        return None
    bin_ = bisect_right(ENDS, unit) - 1 if unit < ENDS[-1] else None
    n = (word ^ 1 << 31) - (1 << 31) if bin_ is None else (FIRST + bin_) * KNOT + word % KNOT
    bits = 64
    for number in count():
        low, high = acceptance(bin_, n, bits)
        if uniform < low:
            return int(n)
        if uniform >= high:
            return None
        uniform = uniform << BITS_MORE | int.from_bytes(more(number), "little")
        bits += BITS_MORE
    raise AssertionError


def _hat(knot: int) -> int:
    middle = len(HATS) // 2
    return HATS[knot + middle] if abs(knot) <= middle else 0
