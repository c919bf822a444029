"""Whether cohorts are drawn as they should be: who was drawn so far, and how likely that is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import xlogy

from fedveil.engine.chance import NO_CHANCE
from fedveil.parts.cohorts import Cohort, PoissonCohort


class CohortMemory:
    """Remembers the cohorts of one training.

    No probability here has to be small for a single round: what is compared is the chance of all that was seen. So a
    sound draw is called unsound with a probability of about e^−24 a round.
    """

    def __init__(self, clients: int) -> None:
        self._last: tuple[int, ...] | None = None
        self._same_cohort = self._same_size = 0.0  # logarithms of the chance of as many repetitions as there just were
        self._drawn = np.zeros(clients, np.int64)
        self._rounds = np.zeros(clients, np.int64)  # in which the client could be drawn
        self._expected = np.zeros(clients)

    def problem(self, sampler: Cohort, cohort: Sequence[int], candidates: Sequence[int]) -> str | None:
        """What is wrong with a cohort that `sampler` drew from the candidates; None where nothing is."""
        if not sampler.can_draw(cohort, candidates):
            return "the cohort is none that can be drawn"
        self._note_repetitions(sampler, cohort, len(candidates))
        share = min(sampler.divisor(len(candidates)) / len(candidates), 1.0)
        self._drawn[list(cohort)] += 1
        self._rounds[list(candidates)] += 1
        self._expected[list(candidates)] += share
        if sampler.most is not None and self._drawn.max() > sampler.most:
            return f"a client takes part in more than {sampler.most} rounds"
        if self._same_cohort < NO_CHANCE:
            return "the cohort was drawn before; the draws are not random"
        if self._same_size < NO_CHANCE:
            return "cohorts are always of one size; the draws are not independent"
        if self._least_likely() < NO_CHANCE - math.log(2 * len(self._drawn)):
            return "a client is drawn too often or too rarely; the draws are not random"
        return None

    def _note_repetitions(self, sampler: Cohort, cohort: Sequence[int], candidates: int) -> None:
        share, size = min(sampler.divisor(candidates) / candidates, 1.0), len(cohort)
        if isinstance(sampler, PoissonCohort):
            again = candidates * math.log(share**2 + (1 - share) ** 2)
            usual = min(int((candidates + 1) * share), candidates)  # the likeliest size
            likely = _log_choose(candidates, usual) + xlogy(usual, share) + xlogy(candidates - usual, 1 - share)
        else:
            again, likely = -_log_choose(candidates, size), 0.0
        last = self._last
        self._same_cohort = self._same_cohort + again if last == tuple(cohort) else 0.0
        self._same_size = self._same_size + likely if last is not None and len(last) == size else 0.0
        self._last = tuple(cohort)

    def _least_likely(self) -> float:
        """The logarithm of a bound on the chance of the oddest number of times that a client was drawn.

        P[Bin(n, p) is as far off as k] ≤ exp(−n·KL(k/n ‖ p)); for coins of several p with their mean (Hoeffding).
        """
        some = self._rounds > 0
        n, k, p = self._rounds[some], self._drawn[some], np.minimum(self._expected[some] / self._rounds[some], 1.0)
        likely = xlogy(k, p) - xlogy(k, k / n) + xlogy(n - k, 1 - p) - xlogy(n - k, 1 - k / n)
        return float(likely.min(initial=0.0))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
