"""Comparisons of what was executed with what is declared, each with the probability of a false alarm.

An audit's guesses test a promise as a whole, but large noise hides everything from them. These tests look at single
parts and need no small noise. They are about clients that hold nothing, whose work is noise alone, and about what one
canary moves while all noise stays the same.

**Size.** In units of its declared standard deviation, squares of the noise add up to a χ². Their sums are looked at for
every coordinate, every single noise, every quarter of the coordinates, and all of it.

**Reuse.** For two noises the sum Σ of the products of their signs, over n coordinates. If the signs of one are fair
coins, independent of the other, P[|Σ| ≥ t·sqrt(n)] ≤ 2·exp(−t²/2) (Hoeffding 1963), whatever the sizes are; the bound
is taken for all pairs together. Equal noises have t = sqrt(n).

**Batches.** By ranks (Mann and Whitney), which need no assumption about the distribution: sizes of batches and sizes
drawn as declared must not be told apart.

**Keys.** Keys of 256 random bits never come back. Of n keys made from b random bits two are the same with probability
1 − exp(−n²/2^(b+1)): with n = 2¹⁸ keys of 32 bits, that is 99.97 %.

**Sensitivity.** No chance is involved: with the same noise and the opposite coin, what is seen must not move by more
than the declared sensitivity lets it, up to rounding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from fedveil.attacks.audit.bounds import BY_CHECKS
from fedveil.attacks.audit.watching import BLOCKS
from fedveil.core.verdicts import Check, CheckKind

CHECK_KINDS = 5
"""Checks with a chance of a false alarm; they share what the audit leaves to all of them."""

ROUNDING_OF_SENSITIVITY = 1e-3
"""By how much more than declared a canary may move what is seen, relative to that: single precision."""


def level_of(confidence: float) -> float:
    """The error probability of one check, so that all of them together keep within their share of it."""
    return (1 - confidence) * BY_CHECKS / CHECK_KINDS


def size_check(noises: Tensor, level: float) -> Check:
    """Noises `[n, D]` in units of their declared standard deviations."""
    squares = torch.nan_to_num(noises.double().square(), nan=1e300, posinf=1e300)
    count, size = squares.shape
    blocks = [part.sum() for part in squares.tensor_split(BLOCKS, dim=1)]
    freedoms = [count * part.shape[1] for part in squares.tensor_split(BLOCKS, dim=1)]
    chances = [
        _any_of(_two_sided(squares.sum(dim=0), count)),
        _any_of(_two_sided(squares.sum(dim=1), size)),
        _any_of(
            [chance for part, freedom in zip(blocks, freedoms, strict=True) for chance in _two_sided(part, freedom)]
        ),
        _any_of(_two_sided(squares.sum(), count * size)),
    ]
    return Check(CheckKind.NOISE_SIZE, math.sqrt(float(squares.mean())), _any_of(chances), level, count)


def _two_sided(totals: Tensor, freedom: int) -> list[float]:
    """How likely sums of so many squares of Gaussians are as far out as these."""
    values = np.atleast_1d(totals.numpy())
    if freedom == 0:
        return [1.0] * len(values)
    lower, upper = stats.chi2.cdf(values, freedom), stats.chi2.sf(values, freedom)
    return [float(chance) for chance in np.minimum(2 * np.minimum(lower, upper), 1.0)]


def _any_of(chances: Sequence[float]) -> float:
    """At most the probability that any of several tests gives so small a value."""
    return min(1.0, len(chances) * min([1.0, *chances]))


def reuse_check(noises: Tensor, level: float) -> Check:
    """Whether any two of the noises `[n, D]` have something in common."""
    coins = torch.nan_to_num(noises).sign().double()
    there = coins.abs()
    products, sizes = (coins @ coins.T).abs().fill_diagonal_(0.0), (there @ there.T).clamp_min(1.0)
    count = len(coins)
    pairs = count * (count - 1) // 2
    largest = float((products.square() / sizes).max())
    chance = min(1.0, pairs * 2 * math.exp(-largest / 2)) if pairs else 1.0
    return Check(CheckKind.NOISE_REUSE, float((products / sizes).max()), chance, level, count)


def report_check(noises: Tensor, level: float) -> Check:
    """Noises of reports in units of their declared size: their distribution (Kolmogorov and Smirnov), their squares."""
    values = noises.double().flatten()
    chances = [float(stats.kstest(values.numpy(), "norm").pvalue), *_two_sided(values.square().sum(), len(values))]
    return Check(CheckKind.REPORT_NOISE, math.sqrt(float(values.square().mean())), _any_of(chances), level, len(values))


def batch_check(counts: Sequence[int], declared: Sequence[int], level: float) -> Check:
    """Numbers of records in batches and such as are declared: how far they are from the mean, by ranks."""
    middle = float(np.mean(declared))
    seen, wanted = (np.abs(np.array(part, dtype=np.float64) - middle) for part in (counts, declared))
    if not wanted.any():  # a constant: every other number contradicts
        return Check(CheckKind.BATCHES, 1.0, 0.0 if seen.any() else 1.0, level, len(counts))
    chance = float(stats.mannwhitneyu(seen, wanted, method="asymptotic").pvalue)
    return Check(CheckKind.BATCHES, float(np.sqrt(np.mean(seen**2) / np.mean(wanted**2))), chance, level, len(counts))


def cohort_check(cohorts: Sequence[Sequence[int]], clients: int, level: float) -> Check:
    """Cohorts of several rounds: given their sizes they are uniform subsets, so two rarely have many in common."""
    chances, shares = [], []
    for first, second in itertools.pairwise(cohorts):
        common = len(set(first) & set(second))
        chances.append(float(stats.hypergeom.sf(common - 1, clients, len(first), len(second))))
        shares.append(common / max(min(len(first), len(second)), 1))
    return Check(CheckKind.COHORTS, max(shares, default=0.0), _any_of(chances), level, len(cohorts))


def key_check(keys: Iterable[bytes], level: float) -> Check:
    """Whether any of the keys comes back."""
    drawn = list(keys)
    repeated = len(drawn) - len(set(drawn))
    return Check(CheckKind.KEYS, repeated / len(drawn), 0.0 if repeated else 1.0, level, len(drawn))


def sensitivity_check(moved: Sequence[tuple[float, float]], level: float) -> Check:
    """How far canaries moved what is seen, each beside how far it may at most."""
    largest = max((_relative(*one) for one in moved), default=0.0)
    broken = largest > 1 + ROUNDING_OF_SENSITIVITY
    return Check(CheckKind.SENSITIVITY, largest, 0.0 if broken else 1.0, level, len(moved))


def _relative(length: float, allowed: float) -> float:
    if not math.isfinite(length):
        return math.inf
    return length / allowed if allowed > 0 else math.inf if length > 0 else 0.0
