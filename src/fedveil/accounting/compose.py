"""Composition: from counted steps to ε(δ) and δ(ε).

Certified by privacy loss distributions in both directions. Plain Gaussians alone have a closed form, the limit of
their PLD: n of them with z_i are one with (Σ z_i^−2)^(−1/2). Where δ is too small for the rounding of plain
transforms, tilted ones are read. Where no grid could hold a PLD, Rényi divergences certify.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedveil.accounting import pld, renyi
from fedveil.accounting.events import Counted, Step, added_up, canonical_noise, counted_words
from fedveil.accounting.gaussian_privacy import gaussian_delta, gaussian_epsilon, mixture_delta, mixture_epsilon
from fedveil.accounting.losses import Losses, mixture_of, no_loss
from fedveil.accounting.step_spread import step_spread
from fedveil.core.checks import check_delta, check_epsilon
from fedveil.core.errors import FedveilError

MOST_STEPS = 10**12
COARSENINGS = (1, 3, 10, 60)
"""Tried in turn: rounding spoils a grid that is very fine compared with the reach of one step's loss."""
LARGEST_EPSILON = 1e6
"""Beyond it a finite ε says nothing and floating point little; it is printed as ∞."""


@dataclass(frozen=True)
class Term:
    """`times` rounds; in each of them all of `steps` are made with probability `chance`, by a coin that may be seen.

    With a `law` they are made in n rounds with probability `law[n]`, and in how many (and which) may be seen: given the
    draw, n rounds compose, and the divergence is the mean over the draw, which does not depend on the data.
    """

    steps: Counted
    chance: float = 1.0
    times: int = 1
    law: tuple[float, ...] = ()

    def __str__(self) -> str:
        if self.law:
            often = f"as often with probability ≤ {max(self.law[-1], 1e-3):.3f}"
            return f"at most {len(self.law) - 1:,} rounds ({often}) × [{counted_words(self.steps)}]"
        if self.chance == 1 and self.times == 1:
            return counted_words(self.steps)
        drawn = f"drawn with probability {self.chance:.4g}: " if self.chance < 1 else ""
        return f"{self.times:,} rounds × [{drawn}{counted_words(self.steps)}]"


Composition = tuple[Term, ...]


@dataclass(frozen=True)
class Certified:
    """ε at δ, which accountant certified it, and, where it is ∞, why."""

    epsilon: float
    accountant: str
    reason: str = ""

    @property
    def by_renyi(self) -> bool:
        return self.accountant == "RDP"


def composition(*terms: Term) -> Composition:
    """The normal form: steps that run anyhow are one term, equal mechanisms are merged, empty terms are gone."""
    certain: list[tuple[Step, int]] = []
    drawn: dict[tuple[Counted, float], int] = {}
    by_law: list[Term] = []
    canonical = canonical_noise(step for term in terms for step, _ in term.steps)
    for term in terms:
        if term.times < 0 or not 0 < term.chance <= 1:
            raise FedveilError(f"accounting: cannot compose {term.times} rounds with sampling rate {term.chance}")
        steps = added_up((canonical[step], count) for step, count in term.steps)
        if term.times == 0 or not steps:
            continue
        if term.law and term.law[-1] == 1 and len(term.law) > 1:  # surely as often as that
            _checked_law(term)
            certain += [(step, count * term.times * (len(term.law) - 1)) for step, count in steps]
        elif term.law:
            by_law += [Term(steps, law=_checked_law(term))] * term.times
        elif term.chance == 1:
            certain += [(step, count * term.times) for step, count in steps]
        else:
            drawn[steps, term.chance] = drawn.get((steps, term.chance), 0) + term.times
    by_chance = [Term(steps, chance, times) for (steps, chance), times in sorted(drawn.items())] + by_law
    return (Term(added_up(certain)), *by_chance) if certain else tuple(by_chance)


def _checked_law(term: Term) -> tuple[float, ...]:
    if term.chance != 1 or min(term.law) < 0 or not abs(sum(term.law) - 1) < 1e-9:
        raise FedveilError("accounting: a law of the number of rounds must be one of probabilities")
    return term.law


def covers(first: Composition, second: Composition) -> bool:
    """Whether `first` surely reveals at least as much as `second`: the same mechanisms, each as often and as strong."""
    if len(first) != len(second):
        return not second
    return all(
        mine.chance >= other.chance
        and mine.times >= other.times
        and mine.law == other.law
        and len(mine.steps) == len(other.steps)
        and all(
            step.covers(its) and count >= its_count
            for (step, count), (its, its_count) in zip(mine.steps, other.steps, strict=True)
        )
        for mine, other in zip(first, second, strict=True)
    )


def describe(parts: Composition) -> str:
    return " + ".join(map(str, parts)) or "nothing was released"


def total_steps(parts: Composition) -> int:
    return sum(term.times * max(len(term.law) - 1, 1) * count for term in parts for _, count in term.steps)


@lru_cache(maxsize=4096)
def certify(parts: Composition, delta: float) -> Certified:
    """The certified ε of a composition at δ."""
    check_delta(delta)
    if not parts:
        return Certified(0.0, "PLD")
    if total_steps(parts) > MOST_STEPS:
        return Certified(math.inf, "none", f"{total_steps(parts):,} compositions are more than can be accounted")
    noise = gaussian_only(parts)
    if noise is not None:
        return _finite(gaussian_epsilon(noise, delta), "PLD")
    cases = gaussians_by_law(parts)
    if cases is not None:
        return _finite(mixture_epsilon(cases, delta), "PLD")
    for coarsening in COARSENINGS:
        epsilon = _epsilon_by_losses(parts, delta, coarsening)
        if epsilon is not None and math.isfinite(epsilon):
            if coarsening == 1:
                return _finite(epsilon, "PLD")
            by_renyi = renyi_epsilon(parts, delta)  # a coarse grid is sound, but can be the looser of the two
            return _finite(epsilon, "PLD") if epsilon <= by_renyi else _finite(by_renyi, "RDP")
    return _finite(renyi_epsilon(parts, delta), "RDP")


def _epsilon_by_losses(parts: Composition, delta: float, coarsening: int) -> float | None:
    whole = composed_pld(parts, coarsening)
    if whole is None:
        return None
    steps = total_steps(parts)
    epsilon = pld.read_epsilon(whole, delta, steps) if pld.clear(whole, delta, steps) else None
    if epsilon is not None and math.isfinite(epsilon):
        return epsilon
    tilt = _tilt(parts, coarsening, delta)
    tilted = None if tilt is None else composed_pld(parts, coarsening, tilt)
    return None if tilted is None else pld.read_epsilon(tilted, delta, steps)


@lru_cache(maxsize=4096)
def certified_delta(parts: Composition, epsilon: float) -> float:
    """The certified δ at ε: Geyer's form of a budget."""
    check_epsilon(epsilon)
    if not parts:
        return 0.0
    if total_steps(parts) > MOST_STEPS:
        return 1.0
    noise = gaussian_only(parts)
    if noise is not None:
        return gaussian_delta(noise, epsilon)
    cases = gaussians_by_law(parts)
    if cases is not None:
        return mixture_delta(cases, epsilon)
    delta = renyi.delta_at(divergences(parts), epsilon)
    for coarsening in COARSENINGS:
        whole = composed_pld(parts, coarsening)
        if whole is not None and delta < 100 * pld.FOURIER_ROUNDING * total_steps(parts):
            tilt = _tilt(parts, coarsening, max(delta, 1e-300))
            whole = whole if tilt is None else composed_pld(parts, coarsening, tilt)
        if whole is not None:
            by_loss = pld.read_delta(whole, epsilon, total_steps(parts))
            delta = min(delta, by_loss)
            if by_loss < 1:
                break
    return delta


def _finite(epsilon: float, accountant: str) -> Certified:
    if not epsilon <= LARGEST_EPSILON:
        return Certified(math.inf, accountant, f"the accounted loss is beyond any meaning (ε > {LARGEST_EPSILON:,.0f})")
    return Certified(epsilon, accountant)


def gaussian_only(parts: Composition) -> float | None:
    """z of the one Gaussian that a composition of plain Gaussians amounts to; None for anything else."""
    if any(term.law or term.chance < 1 or step.kind != "gaussian" for term in parts for step, _ in term.steps):
        return None
    inverse = sum(term.times * count / step.noise_multiplier**2 for term in parts for step, count in term.steps)
    return 1 / math.sqrt(inverse)


def gaussians_by_law(parts: Composition) -> tuple[tuple[float, float], ...] | None:
    """(probability, z) of the Gaussians that rounds by a law amount to; None for anything else, or nothing at all."""
    if len(parts) != 1 or not parts[0].law:
        return None
    once = gaussian_only((Term(parts[0].steps),))
    if once is None:
        return None
    return tuple((weight, once / math.sqrt(n)) for n, weight in enumerate(parts[0].law) if n and weight > 0) or None


@lru_cache(maxsize=16)
def composed_pld(parts: Composition, coarsening: int = 1, tilt: float = 0.0) -> Losses | None:
    """The PLD of a composition; None where its grid would be out of proportion.

    `tilt` θ makes all of it on p·e^(θ·loss), so that the rounding of transforms is small beside the tail where a tiny δ
    is read. (Its other direction is tilted alike.)
    """
    if total_steps(parts) > pld.MOST_COMPOSED:
        return None
    interval = grid_interval(parts, coarsening)
    if interval is None:
        return None
    if len(parts) == 1:
        return _term_pld(parts[0], interval, tilt)
    return pld.composed_of([(_term_pld(term, interval, tilt), 1) for term in parts])


def _term_pld(term: Term, interval: float, tilt: float) -> Losses:
    if term.law:
        each = [
            (weight, _round_pld(tuple((step, n * count) for step, count in term.steps), 1.0, interval, tilt))
            if n
            else (weight, no_loss(interval, tilt))
            for n, weight in enumerate(term.law)
            if weight > 0
        ]
        return mixture_of(each)
    if term.times == 1:
        return _round_pld(term.steps, term.chance, interval, tilt)
    return _rounds_pld(term.steps, term.chance, interval, tilt).times(term.times)


@lru_cache(maxsize=16)
def _rounds_pld(steps: Counted, chance: float, interval: float, tilt: float) -> pld.Repeatable:
    return pld.Repeatable(_round_pld(steps, chance, interval, tilt))


def _round_pld(steps: Counted, chance: float, interval: float, tilt: float) -> Losses:
    factors = [(pld.repeated(step, count, interval, tilt), 1) for step, count in steps]
    return pld.seen_draw(pld.composed_of(factors), chance)


def _tilt(parts: Composition, coarsening: int, delta: float) -> float | None:
    """θ of the best Chernoff bound (log E e^(θ·loss) + log 1/δ)/θ: there the tail of δ is the middle of the masses."""
    interval = grid_interval(parts, coarsening)
    assert interval is not None
    best: tuple[float, float] | None = None
    for tilt in np.geomspace(0.3, 3e5, 70):
        moment = max(_log_moments(parts, interval, float(tilt)))
        bound = (moment - math.log(delta)) / float(tilt)
        if math.isfinite(bound) and (best is None or bound < best[0]):
            best = bound, float(tilt)
    return None if best is None else best[1]


def _log_moments(parts: Composition, interval: float, order: float) -> tuple[float, float]:
    """log E e^(order·loss) of both directions, from single steps."""
    totals = [0.0, 0.0]
    for term in parts:
        for way in (0, 1):
            once = sum(
                count * pld.both_directions(pld.of_step(step, interval))[way].log_moment(order)
                for step, count in term.steps
            )
            if term.law:
                drawn = [math.log(weight) + n * once for n, weight in enumerate(term.law) if weight > 0]
                totals[way] += float(np.logaddexp.reduce(drawn))
            elif term.chance < 1:
                absent = math.log1p(-term.chance)
                totals[way] += term.times * float(np.logaddexp(absent, math.log(term.chance) + once))
            else:
                totals[way] += term.times * once
    return totals[0], totals[1]


def grid_interval(parts: Composition, coarsening: int = 1) -> float | None:
    """Fine enough for a step, and not more points than an FFT takes in a moment; None where both cannot be had.

    The loss of one step has a standard deviation of about q·sqrt(e^(z^−2) − 1), up to sqrt(2) times that for samples of
    fixed size. Connecting the dots on a grid of interval d adds at most about d²/4 to its variance, so the interval
    follows the mean variance of the steps.
    """
    variance, count, mean, widest = 0.0, 0, 0.0, 0.0
    for term in parts:
        rounds = max(len(term.law) - 1, 1) if term.law else term.times
        for step, each in term.steps:
            merged = step.kind == "gaussian"  # plain Gaussians are one
            once = each * rounds if merged and term.law else each
            times = (1 if term.law else rounds) if merged else rounds * each
            noise = step.noise_multiplier / math.sqrt(once) if merged else step.noise_multiplier
            if noise < 0.05:  # e^400: nothing a grid could hold
                return None
            least, single = step_spread(step, noise)
            farthest = 10.5 / least + 1 / (2 * least**2)
            widest = max(widest, float(np.logaddexp(0.0, math.log(step.rate) + farthest)))
            variance += single * times
            count += times
            mean += term.chance * times * min(single / 2, 1 / (2 * least**2))
    interval = coarsening * min(math.sqrt(variance / count) / pld.POINTS_PER_DEVIATION, pld.COARSEST)
    rounded = count * interval**2 / 4  # what the grid itself adds to the variance
    reach = 2 * mean + rounded + 20 * math.sqrt(min(variance + rounded, 1e8))
    points = 2 * widest / interval
    small = points <= pld.LARGEST_STEP and reach / interval <= pld.LARGEST_GRID
    # Five digits, so that one round more is on the same grid and shares what was computed on it.
    return float(f"{interval:.5g}") if small and interval >= pld.FINEST else None


def renyi_epsilon(parts: Composition, delta: float) -> float:
    """ε at δ by Rényi divergences: an upper bound, usually looser than the PLD."""
    return renyi.epsilon_at(divergences(parts), delta)


def divergences(parts: Composition) -> renyi.Orders:
    """D_α of a composition at every order."""
    total = np.zeros_like(renyi.ORDERS)
    for term in parts:
        law = term.law or None
        total = total + renyi.term_divergences(term.steps, term.chance, term.times, law)
    return total
