"""Privacy loss distributions (PLD) of steps, their compositions, and a reading of ε that charges rounding to δ.

Losses are on a grid and always rounded against ourselves (`losses.py`, `discrete.py`). A composition is a product of
Fourier transforms, cut to a window outside of which Chernoff's bound leaves next to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
from scipy import fft
from scipy.special import bdtr

from fedveil.accounting.allocation import allocated
from fedveil.accounting.discrete import fixed_size, hidden_record, plain_gaussian, poisson_sampled, sampled_group
from fedveil.accounting.events import Step
from fedveil.accounting.fourier import spectrum_power
from fedveil.accounting.losses import Direction, Floats, Losses, mixture_of, no_loss
from fedveil.core.errors import FedveilError

POINTS_PER_DEVIATION = 20
"""Grid points per standard deviation of one step's loss: overestimates the loss variance by less than 0.1 %."""
FINEST, COARSEST = 1e-8, 2e-3
LARGEST_STEP, LARGEST_GRID, MOST_COMPOSED = 150_000, 4_000_000, 10_000_000
FOURIER_ROUNDING = 1e-13
"""Charged to δ for every composed step. What is read is a sum over a tail, to which the rounding of the Fourier
transform adds about 2⁻⁵²·log₂ N·ln N a step, 1e-14 for any grid used here; what a window cuts off is less. Where losses
are tilted, it is charged in their units, which are far smaller than 1 in the tail."""
MOST_EXCESS = 1e-3
"""Rounding up makes up mass; a composition may have at most so much of it. Such mass only raises ε."""
CUT = 1e-15
"""The mass in the tails that a composition may leave out of its grid; it counts as an infinite loss."""
MOST_CASES = 120
LEAST_COHORT = 1e-14
"""How rarely fewer others are drawn than the fewest that are told apart; they then count as nobody."""


def both_directions(pld: Losses) -> tuple[Direction, Direction]:
    """The `remove` direction (with the unit against without) and the `add` direction (without against with)."""
    return pld.remove, pld.add


def distinct_directions(pld: Losses) -> tuple[Direction, ...]:
    """Only one where both are alike."""
    return pld.distinct


def read_epsilon(pld: Losses, delta: float, steps: int) -> float | None:
    """ε at δ, the larger of both directions. None where rounding over `steps` compositions could blur δ."""
    largest = 0.0
    for direction in pld.distinct:
        slack = rounding(direction, steps)
        epsilon = direction.epsilon(delta, slack) if math.isfinite(slack) else math.inf
        if not math.isfinite(epsilon) or not direction.hidden(np.array([epsilon]), slack)[0] <= delta / 4:
            return None
        largest = max(largest, epsilon)
    return largest


def clear(pld: Losses, delta: float, steps: int) -> bool:
    """Whether rounding is far below δ, so that masses without a tilt will do."""
    return all(rounding(way, steps) <= delta / 1000 for way in pld.distinct)


def read_deltas(pld: Losses, epsilons: Floats, steps: int) -> tuple[Floats, ...]:
    """δ at each ε in every distinct direction, with what rounding may have hidden added."""
    return tuple(
        np.minimum(way.deltas(epsilons) + way.hidden(epsilons, rounding(way, steps)), 1.0) for way in pld.distinct
    )


def read_delta(pld: Losses, epsilon: float, steps: int) -> float:
    """δ at ε, the larger of both directions, with what rounding may have hidden added."""
    return max(float(deltas[0]) for deltas in read_deltas(pld, np.array([epsilon]), steps))


def rounding(direction: Direction, steps: int) -> float:
    """What rounding over `steps` compositions may have changed in the stored masses."""
    if direction.tilt:
        return FOURIER_ROUNDING * (steps + 1) * max(float(direction.masses.sum()), 1e-300)
    missing = 1.0 - float(direction.masses.sum()) - direction.infinite
    if not missing > -MOST_EXCESS:  # rounding has made up mass: sound, but no longer worth reading
        return math.inf
    return max(missing, 0.0) + FOURIER_ROUNDING * (steps + 1)


@lru_cache(maxsize=64)
def of_step(step: Step, interval: float) -> Losses:
    """The PLD of one step.

    A cut Poisson batch (`overflow` w > 0): whether the *other* records fill the slots does not depend on the unit,
    so it may be revealed, and the PLD is the mixture of both cases. Filled (probability at most w): the unit comes
    in with probability at most q and then changes the sum by at most 2S, a Poisson-subsampled Gaussian(z/2); it
    dominates the usual case, so raising its weight to w and its rate to q only loses. dp_accounting's own event for
    this uses a replace-one pair there, which is looser in the noise and tighter in the rate.
    """
    noise, rate = step.noise_multiplier, step.rate
    if step.kind == "gaussian":
        return plain_gaussian(noise, interval)
    if step.kind == "without-replacement":
        return fixed_size(noise, rate, interval)
    if step.kind == "hidden-record":
        return hidden_record(noise, rate, interval)
    if step.kind == "group":
        return sampled_group(drawn_of_group(step), noise, interval)
    if step.kind == "gathered":
        return mixture_of([(weight, of_step(Step("gaussian", z), interval)) for weight, z in gathered_noises(step)])
    if step.kind == "allocated":
        usual = allocated(step.size, noise, interval)
        if step.overflow == 0:
            return usual
        return mixture_of([(step.overflow, plain_gaussian(noise / 2, interval)), (1 - step.overflow, usual)])
    usual = poisson_sampled(noise, rate, interval)
    if step.overflow == 0:
        return usual
    return mixture_of([(step.overflow, poisson_sampled(noise / 2, rate, interval)), (1 - step.overflow, usual)])


def drawn_of_group(step: Step) -> tuple[float, ...]:
    """How many of a group's records a batch holds: P(min(Bin(N, q), slots) = k), rounded towards more of them."""
    counts = np.arange(step.slots)
    at_most = np.minimum(np.append(bdtr(counts, step.size, step.rate) * (1 - 1e-12), 1.0), 1.0)
    return tuple(float(weight) for weight in np.maximum(np.diff(at_most, prepend=0.0), 0.0))


@lru_cache(maxsize=256)
def gathered_noises(step: Step) -> tuple[tuple[float, float], ...]:
    """(probability, z·sqrt(n + 1)) over the number n of others whom coins of rate p draw out of `size`.

    Up to `MOST_CASES`: neighbouring n count as the smallest of them.
    """
    counts = np.arange(step.size + 1)
    at_most = bdtr(counts, step.size, step.rate) if step.rate < 1 else (counts >= step.size).astype(np.float64)
    low = int(np.searchsorted(at_most, LEAST_COHORT))
    high = int(np.searchsorted(at_most, 1 - 1e-12))
    starts = [0, *sorted({int(n) for n in np.linspace(low, high + 1, MOST_CASES)} - {0})]
    bounds = [0.0, *(float(at_most[start - 1]) * (1 + 1e-12) for start in starts[1:] if start <= step.size), 1.0]
    cases = []
    for start, before, after in zip(starts, bounds, bounds[1:], strict=False):
        weight = max(min(after, 1.0) - before, 0.0)
        if weight > 0:
            cases.append((weight, step.noise_multiplier * math.sqrt(start + 1)))
    return tuple(cases)


def seen_draw(pld: Losses, chance: float) -> Losses:
    """A round that happens with probability `chance`, to an adversary who may learn whether it did.

    With Z for "did not happen", H(cP + (1−c)Z ‖ cQ + (1−c)Z) ≤ c·H(P ‖ Q), with equality where Z is told from P and
    Q. The right-hand side is the PLD that has loss 0 with probability 1 − c.
    """
    if not 0 < chance <= 1:
        raise FedveilError(f"sampling rate: must be above 0 and at most 1, not {chance}")
    if chance == 1:
        return pld
    return mixture_of([(chance, pld), (1 - chance, no_loss(pld.remove.interval, pld.remove.tilt))])


# A distribution composed with itself and with others


@lru_cache(maxsize=64)
def repeated(step: Step, count: int, interval: float, tilt: float = 0.0) -> Losses:
    """`count` compositions of a step; plain Gaussians add up to one with z/sqrt(count)."""
    if step.kind == "gaussian":
        return tilted(of_step(Step("gaussian", step.noise_multiplier / math.sqrt(count)), interval), tilt)
    return _repeatable(step, interval, tilt).times(count)


@lru_cache(maxsize=16)
def _repeatable(step: Step, interval: float, tilt: float) -> Repeatable:
    return Repeatable(tilted(of_step(step, interval), tilt))


def tilted(pld: Losses, tilt: float) -> Losses:
    """Both directions with their masses as p·e^(tilt·loss)."""
    return Losses.of([way.tilted(tilt) for way in pld.distinct])


class Repeatable:
    """A PLD that is composed with itself now so often, now once more: what does not depend on how often is kept."""

    def __init__(self, pld: Losses) -> None:
        self._pld = pld
        self._factors = tuple(_Factor(direction) for direction in pld.distinct)

    def times(self, count: int) -> Losses:
        """The `count`-fold composition."""
        return self._pld if count == 1 else Losses.of([_product([(factor, count)]) for factor in self._factors])


def composed_of(factors: Sequence[tuple[Losses, int]]) -> Losses:
    """All of the factors, each so often, in both directions."""
    if len(factors) == 1 and factors[0][1] == 1:
        return factors[0][0]
    ways = [[(_Factor(pld.remove), count) for pld, count in factors]]
    if any(len(pld.distinct) > 1 for pld, _ in factors):
        ways.append([(_Factor(pld.add), count) for pld, count in factors])
    return Losses.of([_product(way) for way in ways])


class _Factor:
    """One direction, ready to be multiplied: its masses sum to 1, and its last transform is kept."""

    def __init__(self, direction: Direction) -> None:
        total = float(direction.masses.sum())
        # Without a tilt the masses are probabilities, and what they lack of 1 is part of the result.
        scale = total if direction.tilt else 1.0
        self.direction = replace(
            direction, masses=direction.masses / scale, log_scale=direction.log_scale + math.log(scale)
        )
        self._spectrum: tuple[int, npt.NDArray[np.complex128]] | None = None

    @cached_property
    def moments(self) -> tuple[float, float]:
        """Mean and variance of the position in `masses`."""
        places, masses = np.arange(len(self.direction.masses)), self.direction.masses
        mean = float(places @ masses) / float(masses.sum())
        return mean, max(float((places - mean) ** 2 @ masses), 0.0)

    def log_moments(self, orders: Floats) -> Floats:
        """log Σ p·e^(order·j) at each order, positions counted from the mean."""
        centred = np.arange(len(self.direction.masses)) - self.moments[0]
        reach = np.maximum(-orders * self.moments[0], orders * centred[-1])
        masses = np.maximum(self.direction.masses, 0.0)  # rounding may leave values below 0
        sums = [float(np.exp(centred * order - top) @ masses) for order, top in zip(orders, reach, strict=True)]
        return np.asarray(reach + np.log(np.maximum(sums, 1e-300)))

    def spectrum(self, size: int) -> npt.NDArray[np.complex128]:
        if self._spectrum is None or self._spectrum[0] != size:
            self._spectrum = size, fft.rfft(self.direction.masses, size)
        return self._spectrum[1]


_ORDERS = np.array([0.5, 1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 10.0, 14.0, 20.0, 30.0])


def _product(factors: Sequence[tuple[_Factor, int]]) -> Direction:
    """The convolution of all factors, cut to a window.

    Outside there is at most `CUT` of the mass, by Chernoff's bound. It is charged as an infinite loss, which also pays
    for what the cyclic transform wraps around into the window; of tilted masses it is part of `FOURIER_ROUNDING`.
    """
    mean = sum(count * factor.moments[0] for factor, count in factors)
    deviation = math.sqrt(max(sum(count * factor.moments[1] for factor, count in factors), 1.0))
    orders = np.concatenate((-_ORDERS, _ORDERS)) / deviation
    logs = np.array([0.0] * len(orders)) + sum(count * factor.log_moments(orders) for factor, count in factors)
    bounds = mean + (logs + math.log(2 / CUT)) / orders
    lower = max(0, math.floor(float(bounds[orders < 0].max())))
    upper = min(
        sum(count * (len(factor.direction.masses) - 1) for factor, count in factors),
        math.ceil(float(bounds[orders > 0].min())),
    )
    longest = max(len(factor.direction.masses) for factor, _ in factors)
    size = _transform_length(max(upper - lower + 1, longest))
    spectrum: npt.NDArray[np.complex128] | None = None
    for factor, count in factors:
        power = spectrum_power(factor.spectrum(size), count)
        spectrum = power if spectrum is None else spectrum * power
    masses = np.roll(fft.irfft(spectrum, size), -(lower % size))[: upper - lower + 1]
    first, finite = (
        factors[0][0].direction,
        sum(count * math.log1p(-factor.direction.infinite) for factor, count in factors),
    )
    return Direction(
        sum(count * factor.direction.lower for factor, count in factors) + lower,
        first.interval,
        masses,
        -math.expm1(finite) + (0.0 if first.tilt else CUT),
        first.tilt,
        sum(count * factor.direction.log_scale for factor, count in factors),
    )


def _transform_length(least: int) -> int:
    """2^k or 3·2^k: fast, and the same for neighbouring sizes."""
    power = 1 << (least - 1).bit_length()
    return 3 * power // 4 if 3 * power // 4 >= least else power
