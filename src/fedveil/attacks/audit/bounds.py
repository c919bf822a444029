"""From an adversary's scores to a lower bound on ε, with a confidence level.

m canaries are each included by a fair coin of their own; `members[i]` is that coin, `scores[i]` what the adversary
makes of all it saw, higher for "was in". Nothing here knows how the scores came about: any score gives a valid bound, a
better one gives a larger bound. Two tests are made, and the confidence is shared between them.

Both are made twice: with the adversary's score, and, for a smaller share of the error, with a score that is learned
(`learned.py`) from a quarter of the canaries, whose coins the adversary is told, and evaluated on the others. That one
notices noise that is missing somewhere or there twice, without being told where. The rest of the error belongs to the
comparisons with the declaration (`execution_checks.py`).

**One run** (Steinke, Nasr, Jagielski 2023, theorem 5.2 and appendix D). Guess "in" for the highest scores and "out" for
the lowest, r guesses in all. If the run is (ε, δ)-private for each canary, each guess is right with probability at most
q = e^ε/(1 + e^ε) whatever the other guesses were, up to δ, so the probability of v or more right ones is at most

    P[Bin(r, q) ≥ v] + 2·m·δ·max over i of P[v > Bin(r, q) ≥ v − i]/i.

The largest ε for which that is below the error level is refuted. It holds however canaries influence one another: the
proof looks only at the coins. Numbers of guesses are fixed shares of m, and the level is divided by their number.

**Independent trials.** Where each canary sits in a client of its own, and nothing that one client sees depends on
another, the m scores are independent. For a threshold chosen on a quarter of them, the other three quarters give exact
(Clopper–Pearson) bounds on the true positive rate t (from below) and the false positive rate f (from above), and for
another threshold on the share of right answers, a = (t + 1 − f)/2. Every (ε, δ)-private mechanism has t ≤ e^ε·f + δ and
1 − f ≤ e^ε·(1 − t) + δ, hence, adding the two, a ≤ e^ε·(1 − a) + δ, so for all δ at once

    ε(δ) ≥ max(log((t − δ)/f), log((1 − f − δ)/(1 − t)))    and    ε(δ) ≥ log((a − δ)/(1 − a)),

because t, f and a are bounded once and for all δ. That refutes an accountant's whole curve ε(δ), not only one point of
it, which is where most of the power is: at δ = 1e-5 the ε of a Gaussian lives in events that a thousand trials never
show. If the mechanism is Gaussian in kind, μ ≥ Φ⁻¹(t) − Φ⁻¹(f) and μ ≥ 2·Φ⁻¹(a) (after Nasr et al. 2023), and μ gives ε
at any δ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, ndtri
from scipy.stats import binom

from fedveil.attacks.audit.learned import learned_weights
from fedveil.core.errors import ArgumentError, FedveilError

Readings = npt.NDArray[np.float64]
Coins = npt.NDArray[np.bool_]

BOTH_ENDS = (1.0, 0.25, 0.05)
"""Shares of the canaries that are guessed: half of each share "in", half "out"."""

TOP_ONLY = (0.05, 0.01)
"""Shares guessed "in" only: a canary that is used rarely shows rarely, and its absence never."""

CHOOSING = 4
"""Every fourth trial serves to choose thresholds, and to learn a score, and is not evaluated."""

BY_SCORE, BY_LEARNING, BY_CHECKS = 0.8, 0.1, 0.1
"""How the error probability of an audit is shared: the adversary's own score, the learned one, all checks together."""

MOST_REFUTED = 60.0
"""No experiment of any size refutes a larger ε."""


@dataclass(frozen=True)
class Guessed:
    """`right` of `guesses` guesses, which refute every ε below `epsilon`."""

    guesses: int
    right: int
    epsilon: float


@dataclass(frozen=True)
class OperatingPoint:
    """With the confidence of the audit: true positive rate at least `caught`, false positive rate at most `alarmed`."""

    threshold: float
    caught: float
    alarmed: float

    def epsilon(self, delta: float) -> float:
        """The ε that no (ε, δ)-private mechanism below can have; 0 if none is refuted."""
        return max(_log_ratio(self.caught - delta, self.alarmed), _log_ratio(1 - self.alarmed - delta, 1 - self.caught))

    @property
    def mean(self) -> float:
        """μ of the least revealing Gaussian that allows these rates."""
        return max(float(ndtri(self.caught) - ndtri(self.alarmed)), 0.0) if self.caught > self.alarmed else 0.0


@dataclass(frozen=True)
class Accuracy:
    """With the confidence of the audit: at least the share `right` of answers "in or out?" is right."""

    threshold: float
    right: float

    def epsilon(self, delta: float) -> float:
        return _log_ratio(self.right - delta, 1 - self.right)

    @property
    def mean(self) -> float:
        """μ of the least revealing Gaussian that allows this share."""
        return max(2 * float(ndtri(self.right)), 0.0)


@dataclass(frozen=True)
class Evidence:
    """What an audit found. All of it holds together with the stated confidence."""

    delta: float
    confidence: float
    one_run: tuple[Guessed, ...]
    points: tuple[OperatingPoint | Accuracy, ...]  # empty where the trials are not independent

    def epsilon(self, delta: float | None = None) -> float:
        """The lower bound on ε at δ, for any mechanism; at the audit's own δ also by counting guesses."""
        at = self.delta if delta is None else delta
        guessed = [guess.epsilon for guess in self.one_run] if at <= self.delta else []
        return max([0.0, *guessed, *(point.epsilon(at) for point in self.points)])

    @property
    def mean(self) -> float | None:
        """The lower bound on μ if the mechanism is Gaussian; None where the trials are not independent."""
        return max(point.mean for point in self.points) if self.points else None


def evidence(
    scores: Readings,
    members: Coins,
    *,
    delta: float,
    confidence: float,
    independent: bool,
    readings: Readings | None = None,
) -> Evidence:
    """The lower bounds that these scores support, all of them together with `confidence`.

    `readings` `[m, d]` are what the adversary saw of each canary, from which it may learn a score of its own.
    """
    check_confidence(confidence)
    if len(scores) != len(members) or np.isnan(scores).any():
        raise FedveilError("audit: one score that is a number is needed for each canary")
    error = 1 - confidence
    guessed, points = _tests(scores, members, delta, error * BY_SCORE, independent)
    if readings is not None:
        choosing = chooses(len(members))
        learned = readings @ learned_weights(readings[choosing], members[choosing])
        # Canaries whose coins were told are not guessed.
        more = one_run(learned[~choosing], members[~choosing], delta, error * BY_LEARNING / (2 if independent else 1))
        guessed += more
        if independent:
            points += operating_points(learned, members, delta, error * BY_LEARNING / 2)
    return Evidence(delta, confidence, guessed, points)


def _tests(
    scores: Readings, members: Coins, delta: float, error: float, independent: bool
) -> tuple[tuple[Guessed, ...], tuple[OperatingPoint | Accuracy, ...]]:
    if not independent:
        return one_run(scores, members, delta, error), ()
    return one_run(scores, members, delta, error / 2), operating_points(scores, members, delta, error / 2)


def chooses(count: int) -> Coins:
    """Which of so many trials serve to choose and to learn."""
    return np.asarray(np.arange(count) % CHOOSING == 0)


def check_confidence(confidence: float) -> None:
    """0 < confidence < 1; written so that NaN fails."""
    if not 0 < confidence < 1:
        raise ArgumentError("confidence", f"must lie strictly between 0 and 1, not {confidence}")


def one_run(scores: Readings, members: Coins, delta: float, error: float) -> tuple[Guessed, ...]:
    """The bounds by counting right guesses, for fixed numbers of guesses; together wrong with probability `error`."""
    order, count = np.argsort(scores, kind="stable"), len(scores)
    ends, guessed = numbers_of_guesses(count), []
    for top, bottom in ends:
        right = int(members[order[count - top :]].sum()) + int((~members[order[:bottom]]).sum())
        guesses = top + bottom
        guessed.append(Guessed(guesses, right, refuted(count, guesses, right, delta, error / len(ends))))
    return tuple(guessed)


def numbers_of_guesses(count: int) -> list[tuple[int, int]]:
    """How many of the highest scores are guessed "in" and how many of the lowest "out", once for each share."""
    ends = [(round(count * share / 2), round(count * share / 2)) for share in BOTH_ENDS]
    ends += [(max(round(count * share), 1), 0) for share in TOP_ONLY]
    return [(min(top, count - bottom), bottom) for top, bottom in ends]


def refuted(canaries: int, guesses: int, right: int, delta: float, error: float) -> float:
    """The largest ε under which `right` of `guesses` right guesses have a probability below `error`."""
    if p_value(canaries, guesses, right, 0.0, delta) >= error:
        return 0.0
    low, high = 0.0, MOST_REFUTED
    for _ in range(50):
        middle = (low + high) / 2
        if p_value(canaries, guesses, right, middle, delta) < error:
            low = middle
        else:
            high = middle
    return low


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """At most how likely a run that is (ε, δ)-private for each canary lets `right` or more guesses be right."""
    if not 0 <= right <= guesses <= canaries:
        raise FedveilError(f"audit: {right} of {guesses} guesses right about {canaries} canaries")
    chance = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(right - 1, guesses, chance))
    if delta == 0 or right == 0:
        return min(tail, 1.0)
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, chance))  # P[v > Bin ≥ v − i], i = 1 … v
    steepest = float(np.max(below / np.arange(1, right + 1)))
    return min(tail + 2 * canaries * delta * steepest, 1.0)


def operating_points(
    scores: Readings, members: Coins, delta: float, error: float
) -> tuple[OperatingPoint | Accuracy, ...]:
    """The rates at the threshold best for ε at δ, and the share of right answers; together wrong up to `error`."""
    choosing = chooses(len(scores))
    seen, coins = scores[choosing], members[choosing]
    if not coins.any() or coins.all():
        return ()
    middle = float(seen[coins].mean() + seen[~coins].mean()) / 2
    # Counts of a quarter, taken three times, stand for those that the evaluation will see.
    candidates = _points(seen, coins, np.unique(seen), error / 4, CHOOSING - 1)
    sharpest = max(candidates, key=lambda point: point.epsilon(delta)).threshold
    rates = _points(scores[~choosing], members[~choosing], np.array([sharpest]), error / 4, 1)
    right = (scores[~choosing] >= middle) == members[~choosing]
    share = float(clopper_pearson(np.array(right.sum()), len(right), error / 2))
    return (*rates, Accuracy(middle, share))


def _points(scores: Readings, members: Coins, thresholds: Readings, error: float, times: int) -> list[OperatingPoint]:
    inside, outside = np.sort(scores[members]), np.sort(scores[~members])
    if not len(inside) or not len(outside):
        return []
    caught = (len(inside) - np.searchsorted(inside, thresholds, side="left")) * times
    alarmed = (len(outside) - np.searchsorted(outside, thresholds, side="left")) * times
    lowest = clopper_pearson(caught, len(inside) * times, error)
    highest = 1 - clopper_pearson(len(outside) * times - alarmed, len(outside) * times, error)
    return [OperatingPoint(float(t), float(c), float(a)) for t, c, a in zip(thresholds, lowest, highest, strict=True)]


def clopper_pearson(successes: npt.NDArray[np.int64], trials: int, error: float) -> Readings:
    """Clopper–Pearson: a probability that these successes show to be reached, except with probability `error`."""
    some = np.maximum(successes, 1)
    return np.where(successes > 0, betaincinv(some, trials - some + 1, error), 0.0)


def _log_ratio(much: float, little: float) -> float:
    if much <= 0:
        return 0.0
    return MOST_REFUTED if little <= 0 else min(max(math.log(much / little), 0.0), MOST_REFUTED)
