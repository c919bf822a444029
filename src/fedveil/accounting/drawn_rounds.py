"""In how many rounds one client takes part, where a limit stops it: laws for `compose.Term`, never too small.

Who is drawn does not depend on anybody's records, so it may be seen. Given the draw, the rounds taken part in compose,
and the divergence is its mean over the draw. A larger number reveals no less, so a law may be exchanged for any that is
stochastically larger: tails P(number ≥ n) are rounded up.

**A cohort of fixed size m** of those who may still be drawn. Who has reached the limit raises the others' chance, so
the number's law depends on how many have, S_t of K before round t. Of few clients all that may happen is followed. Of
more, this is used:

- *One client against the others.* Let every client have a clock in every round, and the m earliest of those who may be
  drawn be the cohort. Take one client away: the m-th earliest of the others is no earlier, so the others' numbers are
  no smaller, in every round. They then evolve by themselves, a cohort of m out of K − 1. The client's own clocks are
  independent of theirs, and given how many of them have reached the limit it is drawn with probability at most
  m/(K − S'_t), round by round a coin of its own. So its number is at most that of coins, averaged over the path S'.
- *The others' path.* As long as S'_t ≤ s_t, each of the others is drawn with probability at most m/(K − 1 − s_t), and
  a cohort's indicators are negatively associated. So for functions g ≥ 0 that grow with the number, the mean of a
  product over clients is at most the product for independent coins: E exp(λS'_t) ≤ (1 + q_t·(e^λ − 1))^(K−1), q_t the
  coins' chance to reach the limit. S' only grows, so a path may be a staircase: s within a block of rounds is left
  only if S' is above it at the block's end, of which Chernoff's bound gives the probability, with coins of this very s.
  For a probability η of ever leaving it, shared out over the blocks, that is a path s(η). Paths of several η are
  nested, so the law is at most the mixture in which path η_k has the weight η_(k−1) − η_k; also at most that of any
  path, with η added.
- *Nobody is drawn twice.* S_t ≤ ⌊t·m/limit⌋ whatever happens: the last path, with η = 0.
- *All together.* The mean number is at most T·m/K, and a number n is reached no less often than by coins of m/K. What
  the limit takes from coins is all that can be added to them: P(number ≥ n) ≤ P(Bin(T, m/K) ≥ n) + E(Bin − limit)⁺.
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import lru_cache

import numpy as np
from scipy.special import bdtrc, gammaln, xlog1py, xlogy

from fedveil.accounting.losses import Floats

BULK_NUMBERS, RARE_NUMBERS = 36, 12
"""Different numbers of rounds that a law tells apart; others count as the next larger one that it does."""
SMALL, RARE, NEVER = 1e-2, 1e-9, 1e-40
"""Numbers that so few clients stay below are not told apart; those that so few reach less and less."""
ROUNDED_UP = 1 + 1e-12
LEAVING = np.array([0.95, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.05, 0.02, 1e-2, 1e-3, 1e-4, 1e-6, 1e-9, 1e-13, 0.0])
"""Probabilities η with which the number of those at their limit leaves a path."""
MOST_TRANSITIONS = 400_000
"""Where so few steps lead from what may have happened to what may happen next, all of them are followed."""
MOST_BLOCKS = 40
_ORDERS = np.geomspace(1e-4, 30, 64)


@lru_cache(maxsize=256)
def law_of_coins(times: int, rate: float, most: int) -> tuple[float, ...]:
    """min(Bin(times, rate), most): a coin in each round until the limit is reached."""
    numbers = np.arange(min(most, times))
    return _law(np.asarray(bdtrc(numbers, times, rate) if rate < 1 else np.ones(len(numbers)), dtype=np.float64))


@lru_cache(maxsize=256)
def law_of_fixed_size(times: int, size: int, clients: int, most: int) -> tuple[float, ...]:
    """A cohort of `size` of those who may still take part, round after round."""
    clients = max(clients, 1)
    rate = min(1.0, size / clients)
    if times <= most:  # nobody is left out before the last round
        return law_of_coins(times, rate, most)
    if _few_states(size, clients, most):
        return _law(np.minimum(_exact_tails(times, size, clients, most) * (1 + 1e-9), 1.0))
    tails = _tails_along_paths(times, size, clients, most)
    tails = np.minimum(tails * (1 + 1e-6), 1.0)  # more than rounding
    weights = -np.diff(LEAVING, prepend=1.0)
    at_least = np.minimum(weights @ tails, (tails + LEAVING[:, None]).min(axis=0))
    if rate < 1:
        coins = bdtrc(np.arange(times), times, rate)
        at_least = np.minimum(at_least, (coins[:most] + float(coins[most:].sum())) * (1 + 1e-6))
    return _law(at_least)


def _few_states(size: int, clients: int, most: int) -> bool:
    """Whether all that may happen can be followed: how many clients have taken part how often, round after round."""
    if clients + most > 60:
        return False
    draws = min(math.comb(min(size, clients) + most - 1, most - 1), math.comb(clients, min(size, clients)))
    return math.comb(clients + most, most) * draws <= MOST_TRANSITIONS


def _exact_tails(times: int, size: int, clients: int, most: int) -> Floats:
    """P(number ≥ 1 … most). Clients are alike, so P(number = n) is the mean share of those with n rounds."""
    states = {(clients, *(0,) * most): 1.0}
    for _ in range(times):
        after: defaultdict[tuple[int, ...], float] = defaultdict(float)
        for state, weight in states.items():
            places = [place for place, held in enumerate(state[:-1]) if held]
            groups = tuple(state[place] for place in places)
            for drawn, chance in _draws(groups, min(size, sum(groups))):
                moved = list(state)
                for place, number in zip(places, drawn, strict=True):
                    moved[place] -= number
                    moved[place + 1] += number
                after[tuple(moved)] += weight * chance
        states = after
    share = np.array(list(states.values())) @ np.array(list(states), dtype=np.float64) / clients
    return np.asarray(np.cumsum(share[:0:-1])[::-1])


@lru_cache(maxsize=4096)
def _draws(groups: tuple[int, ...], size: int) -> tuple[tuple[tuple[int, ...], float], ...]:
    """How many of each group a uniform draw of `size` takes, with probabilities."""
    if len(groups) <= 1:
        return (((size,) * len(groups), 1.0),)
    first, rest = groups[0], sum(groups[1:])
    return tuple(
        ((k, *others), math.comb(first, k) * math.comb(rest, size - k) / math.comb(first + rest, size) * chance)
        for k in range(max(0, size - rest), min(first, size) + 1)
        for others, chance in _draws(groups[1:], size - k)
    )


def _tails_along_paths(times: int, size: int, clients: int, most: int) -> Floats:
    """P(number ≥ 1 … most) of coins along each path of `LEAVING`."""
    ends = _block_ends(times, size, clients, most)
    return np.array([_tails_along(leaving, ends, times, size, clients, most) for leaving in LEAVING])


def _block_ends(times: int, size: int, clients: int, most: int) -> list[int]:
    """After how many rounds paths rise: where coins of m/K have raised the share at the limit by a part, early ones
    more often. Many clients stay closer to their mean, and more blocks are worth their price.
    """
    rounds = np.unique(np.linspace(most, times - 1, 500).astype(np.int64))
    shares = bdtrc(most - 1, rounds, min(1.0, size / clients))
    blocks = min(10 + round(math.sqrt(clients)), MOST_BLOCKS)
    parts = np.searchsorted(shares, shares[-1] * (np.arange(1, blocks) / blocks) ** 2, side="right") - 1
    return sorted({int(rounds[max(part, 0)]) for part in parts} | {times - 1})


def _tails_along(leaving: float, ends: list[int], times: int, size: int, clients: int, most: int) -> Floats:
    others, at_limit = clients - 1, 0.0
    price = math.log(len(ends) / leaving) if leaving > 0 else math.inf
    client, other = np.zeros(most + 1), np.zeros(most + 1)  # P(number = n) of the client, and of each of the others
    client[0] = other[0] = 1.0
    before = 0
    for end in ends:
        while True:  # until those at the limit after the block are no more than was assumed within it
            moved = _after(other, end - before, size, others - at_limit)
            bound = min(_most_at_limit(others, float(moved[-1]), price), end * size // most, others)
            if bound <= at_limit:
                break
            at_limit = bound
        other = moved
        client = _after(client, end - before + (end == times - 1), size, clients - at_limit)
        before = end
    return np.cumsum(client[:0:-1])[::-1]


def _after(numbers: Floats, rounds: int, size: int, candidates: float) -> Floats:
    """More rounds for one of so many candidates, up to the limit."""
    chance, most = size / max(candidates, size), len(numbers) - 1
    more = np.arange(min(rounds, most - 1) + 1)
    choices = gammaln(rounds + 1) - gammaln(more + 1) - gammaln(rounds - more + 1)
    often = np.exp(choices + xlogy(more, chance) + xlog1py(rounds - more, -chance))
    missing = np.arange(most, 0, -1)
    reaches = np.where(missing <= rounds, bdtrc(missing - 1, rounds, chance) if chance < 1 else 1.0, 0.0)
    last = numbers[-1] + float(numbers[:-1] @ reaches)
    return np.append(np.convolve(numbers[:-1], often)[:most], last)


def _most_at_limit(clients: int, chance: float, price: float) -> float:
    """Of so many clients no more reach the limit, but with probability e^(−`price`)."""
    if math.log(max(clients * chance, 1e-300)) <= -price:  # Markov: not even one
        return 0
    bounds = (clients * np.log1p(min(chance * (1 + 1e-6), 1.0) * np.expm1(_ORDERS)) + price) / _ORDERS
    return float(np.floor(bounds.min()))


def _law(at_least: Floats) -> tuple[float, ...]:
    """From P(number ≥ n) for n = 1, 2, … the largest: probabilities, rounded towards more."""
    largest = len(at_least)
    tails = np.concatenate(([1.0], np.minimum.accumulate(np.clip(at_least * ROUNDED_UP, 0.0, 1.0)), [0.0]))
    low = max(int(np.count_nonzero(tails[:-1] > 1 - SMALL)) - 1, 0)
    middle, high = (max(int(np.count_nonzero(tails[:-1] > rare)) - 1, low) for rare in (RARE, NEVER))
    low = 0 if middle < BULK_NUMBERS else low
    told_apart = (np.linspace(low, middle, BULK_NUMBERS), np.linspace(middle, high, RARE_NUMBERS), [largest])
    law, before = np.zeros(largest + 1), 0
    for number in np.unique(np.concatenate(told_apart).astype(np.int64)):
        law[number] = tails[before] - tails[number + 1]
        before = number + 1
    return tuple(float(weight) for weight in law)
