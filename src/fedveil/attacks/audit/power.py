"""What an audit could see: how large a violation must be for its guesses to notice it.

A guess is right with a probability that follows from the trade-off function of the Gaussian mechanism. Let s be the
noise of the adversary's score, and d_i what canary i moves it by. With noise of f times its size a canary that is out
has a score N(0, (f·s)²) and one that is in N(d_i, (f·s)²), so an answer at the threshold τ half-way is right with
probability

    right(f) = ½·Φ(τ/(f·s)) + ½·mean of Φ((d_i − τ)/(f·s)),

which is Φ(μ/(2f)) where all d_i are μ·s. The promise is contradicted by v or more right answers of n, where v is the
smallest number whose Clopper–Pearson bound is above what the promise allows. So noise of f times its size is noticed
with probability P[Bin(n, right(f)) ≥ v]. The same for the guesses of the one-run test, about the highest and lowest
scores. The best single test counts; all of them together notice more.

The d_i are exact: the same training with the same noise and the opposite coins gives them. They include how good the
adversary is: one that looks at a sum of a hundred steps sees less than the proof grants it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom, chi2

from fedveil.attacks.audit.bounds import (
    BY_SCORE,
    CHOOSING,
    Coins,
    Readings,
    chooses,
    clopper_pearson,
    evidence,
    numbers_of_guesses,
    p_value,
)
from fedveil.attacks.audit.promise import Promise

NOTICED_WITH = 0.95
"""The probability with which a violation of the stated size is noticed."""

HALF = 0.5
"""An audit that would not notice noise of this share of its declared size proves nothing."""

LEAST_SHARE = 1e-4
"""Noise of a smaller share of its size is none."""

MOST_CANARIES = 10_000_000


@dataclass(frozen=True, eq=False)
class Guesser:
    """How well the adversary tells canaries apart: what each moves its score by, in units of the score's noise."""

    effects: Readings

    @staticmethod
    def of(differences: Readings, noise: Readings) -> Guesser:
        """From what each canary moves the score by, and scores of canaries that are out.

        The noise's standard deviation is taken at the upper end of its 95 % confidence interval: that is against us.
        """
        freedom = len(noise) - 1
        if freedom < 1 or not np.isfinite(differences).all() or not np.isfinite(noise).all():
            return Guesser(np.zeros(1))
        deviation = float(noise.std(ddof=1)) * math.sqrt(freedom / chi2.ppf(0.05, freedom))
        most = 2 / LEAST_SHARE  # there may be no noise at all
        return Guesser(np.clip(differences / max(deviation, 1e-300), -most, most))

    @cached_property
    def threshold(self) -> float:
        return float(self.effects.mean()) / 2

    def right(self, noise: float) -> float:
        """The probability of a right answer about every canary, with `noise` times the noise."""
        inside = ndtr((self.effects - self.threshold) / noise).mean()
        return float(ndtr(self.threshold / noise) + inside) / 2

    def right_at_ends(self, top: float, bottom: float, noise: float) -> float:
        """The same for guesses about the highest share `top` of scores ("in") and the lowest share `bottom` ("out")."""
        lowest, highest = min(float(self.effects.min()), 0.0), max(float(self.effects.max()), 0.0)
        reach = (lowest - 12 * noise, highest + 12 * noise)

        def below(threshold: float) -> tuple[float, float]:
            inside = float(ndtr((threshold - self.effects) / noise).mean())
            return float(ndtr(threshold / noise)) / 2, inside / 2

        def where(share: float) -> tuple[float, float]:
            return below(float(brentq(lambda threshold: sum(below(threshold)) - share, *reach)))

        right = 0.0
        if top > 0:
            right += 0.5 - where(1 - top)[1] if top < 1 else 0.5
        if bottom > 0:
            right += where(bottom)[0] if bottom < 1 else 0.5
        return right / (top + bottom)


@dataclass(frozen=True)
class Power:
    """What the guesses of an audit could see.

    `answers` are counted. If every guess were right, ε would be shown to be at least `possible`. Noise below the share
    `noise` of what is declared is noticed with probability `probability`; 0 if not even that there is none would be.
    `canaries_needed` would notice noise of half its size; None if no number would, or if that is not known.
    """

    answers: int
    possible: float
    noise: float
    canaries_needed: int | None
    probability: float = NOTICED_WITH

    @property
    def conclusive(self) -> bool:
        return self.noise >= HALF


def power_of(promise: Promise, guesser: Guesser, members: Coins, confidence: float, independent: bool) -> Power:
    """What guesses about these coins could show against the promise."""
    canaries = len(members)
    needed = _canaries_needed(promise, guesser, confidence) if independent else None
    perfect = evidence(
        members.astype(np.float64), members, delta=promise.delta, confidence=confidence, independent=independent
    )
    chance = _chance(promise, guesser, canaries, confidence, independent)
    answers = int((~chooses(canaries)).sum()) if independent else canaries
    return Power(answers, perfect.epsilon(), noticed_noise(chance), needed)


def noticed_noise(chance: Callable[[float], float]) -> float:
    """The largest share of its declared size at which noise is noticed with `NOTICED_WITH`, rounded down."""
    if chance(LEAST_SHARE) < NOTICED_WITH:
        return 0.0
    if chance(1.0) >= NOTICED_WITH:
        return 1.0
    low, high = math.log(LEAST_SHARE), 0.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if chance(math.exp(middle)) >= NOTICED_WITH else (low, middle)
    return math.exp(low)


def _chance(
    promise: Promise, guesser: Guesser, canaries: int, confidence: float, independent: bool
) -> Callable[[float], float]:
    """How likely the best single test notices noise of a share of its declared size."""
    error = (1 - confidence) * BY_SCORE
    tests: list[Callable[[float], float]] = []
    if independent:
        tests.append(_by_answers(promise, guesser, canaries, error / 4))
    shared = error / 2 if independent else error
    ends = numbers_of_guesses(canaries)
    tests += [_by_guesses(promise, guesser, canaries, end, shared / len(ends)) for end in ends]
    return lambda noise: max(test(noise) for test in tests)


def _by_answers(promise: Promise, guesser: Guesser, canaries: int, error: float) -> Callable[[float], float]:
    answers = int((~chooses(canaries)).sum())
    enough = enough_answers(answers, promise.most_right, error)
    return lambda noise: float(binom.sf(enough - 1, answers, guesser.right(noise)))


def enough_answers(answers: int, most_right: float, error: float) -> int:
    """The fewest right answers that contradict; more than there are if all of them would not."""
    return _fewest(answers, lambda right: float(clopper_pearson(np.array(right), answers, error)) > most_right)


def _by_guesses(
    promise: Promise, guesser: Guesser, canaries: int, ends: tuple[int, int], error: float
) -> Callable[[float], float]:
    guesses = sum(ends)
    enough = _fewest(guesses, lambda right: p_value(canaries, guesses, right, promise.epsilon, promise.delta) < error)

    def chance(noise: float) -> float:
        if enough > guesses:
            return 0.0
        right = guesser.right_at_ends(ends[0] / canaries, ends[1] / canaries, noise)
        return float(binom.sf(enough - 1, guesses, right))

    return chance


def _fewest(most: int, contradicts: Callable[[int], bool]) -> int:
    """The smallest number from 1 to `most` that contradicts; `most` + 1 if none does."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if contradicts(middle) else (middle, high)
    return high


def _canaries_needed(promise: Promise, guesser: Guesser, confidence: float) -> int | None:
    """About how many canaries notice noise of half the declared size: two digits, rounded up."""
    if guesser.right(HALF) <= promise.most_right:
        return None
    error, canaries = (1 - confidence) * BY_SCORE / 4, 8
    while canaries <= MOST_CANARIES:
        answers = canaries * (CHOOSING - 1) // CHOOSING
        enough = enough_answers(answers, promise.most_right, error)
        if binom.sf(enough - 1, answers, guesser.right(HALF)) >= NOTICED_WITH:
            unit = 10 ** max(math.floor(math.log10(canaries)) - 1, 0)
            return int(math.ceil(canaries / unit) * unit)
        canaries = math.ceil(canaries * 1.1)
    return None
