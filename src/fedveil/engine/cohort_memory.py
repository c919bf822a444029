"""Whether cohorts are drawn as they should be: who was drawn so far, and how likely that is."""

from __future__ import annotations

import math
from collections import Counter
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
        self._seen: Counter[int] = Counter()
        self._again = -math.inf  # the logarithm of the chance of the likeliest cohort
        self._size: int | None = None
        self._same_size = 0.0  # the logarithm of the chance of as many cohorts of one size as there just were
        self._drawn = np.zeros(clients, np.int64)
        self._rounds = np.zeros(clients, np.int64)  # in which the client could be drawn
        self._expected = np.zeros(clients)

    def problem(self, sampler: Cohort, cohort: Sequence[int], candidates: Sequence[int]) -> str | None:
        """What is wrong with a cohort that `sampler` drew from the candidates; None where nothing is."""
        if not sampler.can_draw(cohort, candidates):
            return "the cohort is none that can be drawn"
        share = min(sampler.divisor(len(candidates)) / len(candidates), 1.0)
        self._drawn[list(cohort)] += 1
        self._rounds[list(candidates)] += 1
        self._expected[list(candidates)] += share
        if sampler.most is not None and self._drawn.max() > sampler.most:
            return f"a client takes part in more than {sampler.most} rounds"
        if self._repeats(sampler, share, cohort, len(candidates)):
            return "the cohort was drawn before; the draws are not random"
        if self._keeps_its_size(sampler, share, len(cohort), len(candidates)):
            return "cohorts are always of one size; the draws are not independent"
        if self._least_likely() < NO_CHANCE - math.log(2 * len(self._drawn)):
            return "a client is drawn too often or too rarely; the draws are not random"
        return None

    def _repeats(self, sampler: Cohort, share: float, cohort: Sequence[int], candidates: int) -> bool:
        """Whether this cohort comes back more often than chance has it.

        That any cohort is drawn k times in n rounds has at most the chance C(n, k)·p^(k−1), p that of the likeliest.
        """
        if isinstance(sampler, PoissonCohort):
            likeliest = candidates * math.log(max(share, 1 - share))
        else:
            likeliest = -_log_choose(candidates, len(cohort))
        self._again = max(self._again, likeliest)
        mark = hash(tuple(cohort))
        self._seen[mark] += 1
        times = self._seen[mark]
        return times > 1 and _log_choose(self._seen.total(), times) + (times - 1) * self._again < NO_CHANCE

    def _keeps_its_size(self, sampler: Cohort, share: float, size: int, candidates: int) -> bool:
        """Whether cohorts of independent coins have had the same size for too long."""
        likely = 0.0
        if isinstance(sampler, PoissonCohort):
            usual = min(int((candidates + 1) * share), candidates)  # the likeliest size
            likely = _log_choose(candidates, usual) + xlogy(usual, share) + xlogy(candidates - usual, 1 - share)
        self._same_size = self._same_size + likely if size == self._size else 0.0
        self._size = size
        return self._same_size < NO_CHANCE

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
