"""In how many rounds one client takes part, where a limit stops it: laws for `compose.Term`, never too small.

Who is drawn does not depend on anybody's records, so it may be seen. Given the draw, the rounds taken part in compose,
and the divergence is its mean over the draw. A larger number reveals no less, so a law may be exchanged for any that is
stochastically larger: probabilities are rounded towards more rounds.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import bdtr

from fedveil.accounting.losses import Floats

MOST_NUMBERS = 48
"""Different numbers of rounds that a law tells apart; others count as the next larger one that it does."""
MOST_ROUNDS_FOLLOWED = 20_000
"""In a longer training a client is taken to reach its limit."""
ROUNDED = 1 - 1e-12
NEVER = 1e-15
"""Fewer rounds than so rare a number are not told apart from it."""


@lru_cache(maxsize=256)
def law_of_coins(times: int, rate: float, most: int) -> tuple[float, ...]:
    """min(Bin(times, rate), most): a coin in each round until the limit is reached."""
    numbers = np.arange(min(most, times))
    below = bdtr(numbers, times, rate) if rate < 1 else np.zeros(len(numbers))
    return _law(np.asarray(below, dtype=np.float64))


@lru_cache(maxsize=256)
def law_of_fixed_size(times: int, size: int, clients: int, most: int) -> tuple[float, ...]:
    """A cohort of `size` of those who may still take part, round after round.

    After t rounds at most ⌊t·size/most⌋ clients have reached the limit, whatever was drawn. So whoever may still be
    drawn is drawn with probability at most p_t = size/(clients − that), given all that came before, and its number of
    rounds is stochastically at most that of independent coins p_t, stopped at the limit.
    """
    if times > MOST_ROUNDS_FOLLOWED:
        return (*(0.0,) * most, 1.0)
    reached = np.zeros(most + 1)  # P(number = n) under the coins
    reached[0] = 1.0
    for round in range(times):
        left = clients - round * size // most
        chance = min(1.0, size / left) if left > 0 else 1.0
        moved = reached[:-1] * chance
        reached[:-1] -= moved
        reached[1:] += moved
    return _law(np.cumsum(reached)[: min(most, times)])


def _law(at_most: Floats) -> tuple[float, ...]:
    """From P(number ≤ n) for all n below the largest: probabilities, rounded towards more."""
    largest = len(at_most)
    below = np.append(np.clip(at_most * ROUNDED, 0.0, 1.0), 1.0)
    low = int(np.searchsorted(below, NEVER))
    kept = sorted({int(n) for n in np.linspace(low, largest, MOST_NUMBERS)} | {largest})
    law = np.zeros(largest + 1)
    before = 0.0
    for number in kept:
        law[number] = max(below[number] - before, 0.0)
        before = max(below[number], before)
    return tuple(float(weight) for weight in law)
