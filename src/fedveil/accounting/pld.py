"""Privacy loss distributions (PLD) and their powers, in both directions and always rounded against ourselves.

Built on dp_accounting's "connect the dots" discretisation: the discrete pair it makes is at least as easy to tell
apart as the real one at *every* ε, and that survives mixtures and composition. What is written here is what the
library does not have: the choice of the grid, batches that are cut, samples of fixed size, a round that one draw
decides, a distribution composed with itself again and again, and a reading of ε that charges the rounding of floating
point to δ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as library
from scipy import fft

from fedveil.accounting.events import Step
from fedveil.core.errors import FedveilError

Floats = npt.NDArray[np.float64]

POINTS_PER_DEVIATION = 20
"""Grid points per standard deviation of one step's loss: overestimates the loss variance by less than 0.1 %."""
FINEST, COARSEST = 1e-8, 2e-3
LARGEST_STEP, LARGEST_GRID, MOST_COMPOSED = 150_000, 4_000_000, 10_000_000
FOURIER_ROUNDING = 1e-13
"""Charged to δ for every composed step. What is read is a sum over a tail, to which the rounding of the Fourier
transform adds about 2⁻⁵²·log₂ N·ln N a step, 1e-14 for any grid used here; one step's discretisation adds less."""
MADE_UP, MOST_EXCESS = 2e-18, 1e-3
"""Rounding makes up about `MADE_UP`/interval of mass at each point of one step's grid; a composition may have at most
`MOST_EXCESS` of it. Such mass only raises ε."""
CUT = 1e-15
"""The mass in the tails that a composition may leave out of its grid; it counts as an infinite loss."""


@dataclass(frozen=True)
class Direction:
    """One direction of a PLD: loss `(lower + j)·interval` with probability `masses[j]`, ∞ with `infinite`."""

    lower: int
    interval: float
    masses: Floats
    infinite: float

    @property
    def losses(self) -> Floats:
        return np.arange(self.lower, self.lower + len(self.masses), dtype=np.float64) * self.interval

    def _tails(self) -> tuple[Floats, Floats]:
        """From each grid point on: the mass of the upper distribution, and of the lower one (p·e^(−loss))."""
        upper = np.append(np.cumsum(self.masses[::-1])[::-1], 0.0) + self.infinite
        scaled = self.masses * np.exp(-np.maximum(self.losses, -600.0))
        return upper, np.append(np.cumsum(scaled[::-1])[::-1], 0.0)

    def deltas(self, epsilons: Floats) -> Floats:
        """Hockey-stick divergences Σ p·(1 − e^(ε − loss))⁺ + p(∞), for any real ε."""
        upper, lower = self._tails()
        first = np.searchsorted(self.losses, epsilons, side="right")
        # Beyond e^600 the subtracted part is left out, which only raises the result.
        subtracted = np.where(epsilons < 600, np.exp(np.minimum(epsilons, 600.0)) * lower[first], 0.0)
        return np.clip(upper[first] - subtracted, 0.0, 1.0)

    def epsilon(self, delta: float) -> float:
        """The smallest ε ≥ 0 with divergence at most δ."""
        if self.infinite >= delta:
            return math.inf
        positive = max(0, 1 - self.lower)  # the first loss above 0
        losses = self.losses[positive:]
        if self.deltas(np.zeros(1))[0] <= delta:
            return 0.0
        # The divergence at ε in [loss_(j−1), loss_j) is upper_j − e^ε·lower_j; it is `infinite` from the last loss on.
        upper, lower = (tail[positive:] for tail in self._tails())
        there = upper[1:] - np.where(losses < 600, np.exp(np.minimum(losses, 600.0)) * lower[1:], 0.0)
        place = int(np.argmax(there <= delta))
        high, low = float(losses[place]), max(0.0, float(losses[place]) - self.interval)
        if high >= 600 or lower[place] <= 0:
            return high
        return min(max(math.log((upper[place] - delta) / lower[place]), low), high)


def both_directions(pld: library.PrivacyLossDistribution) -> tuple[Direction, Direction]:
    """The `remove` direction (with the unit against without) and the `add` direction (without against with)."""
    return _direction(pld._pmf_remove), _direction(pld._pmf_add)


def _direction(pmf: pld_pmf.PLDPmf) -> Direction:
    dense = pmf.to_dense_pmf()
    return Direction(int(dense._lower_loss), float(dense._discretization), dense._probs, float(dense._infinity_mass))


def read_epsilon(pld: library.PrivacyLossDistribution, delta: float, steps: int) -> float | None:
    """ε at δ, the larger of both directions. None where rounding over `steps` compositions could blur δ."""
    largest = 0.0
    for direction in distinct_directions(pld):
        slack = _slack(direction, steps)
        if not slack <= delta / 4:
            return None
        largest = max(largest, direction.epsilon(delta - slack))
    return largest


def read_delta(pld: library.PrivacyLossDistribution, epsilon: float, steps: int) -> float:
    """δ at ε, the larger of both directions, with what rounding may have hidden added."""
    return min(1.0, max(float(way.deltas(np.array([epsilon]))[0]) + _slack(way, steps) for way in both_directions(pld)))


def distinct_directions(pld: library.PrivacyLossDistribution) -> tuple[Direction, ...]:
    """Only one where both are alike."""
    return both_directions(pld)[:1] if pld._symmetric else both_directions(pld)


def _slack(direction: Direction, steps: int) -> float:
    missing = 1.0 - float(direction.masses.sum()) - direction.infinite
    if not missing > -MOST_EXCESS:  # rounding has made up mass: sound, but no longer worth reading
        return math.inf
    return max(missing, 0.0) + FOURIER_ROUNDING * (steps + 1)


@lru_cache(maxsize=64)
def of_step(step: Step, interval: float) -> library.PrivacyLossDistribution:
    """The PLD of one step.

    A cut Poisson batch (`overflow` w > 0): whether the *other* records fill the slots does not depend on the unit,
    so it may be revealed, and the PLD is the mixture of both cases. Filled (probability at most w): the unit comes
    in with probability at most q and then changes the sum by at most 2S, a Poisson-subsampled Gaussian(z/2); it
    dominates the usual case, so raising its weight to w and its rate to q only loses. dp_accounting's own event for
    this uses a replace-one pair there, which is looser in the noise and tighter in the rate.
    """
    if step.kind == "gaussian":
        return _gaussian(step.noise_multiplier, 1.0, interval)
    usual = _gaussian(step.noise_multiplier, step.rate, interval)
    if step.kind == "without-replacement":
        return _exchanged(both_directions(usual)[0])
    if step.overflow == 0:
        return usual
    return _gaussian(step.noise_multiplier / 2, step.rate, interval).compute_mixture(usual, step.overflow)


def _gaussian(noise_multiplier: float, rate: float, interval: float) -> library.PrivacyLossDistribution:
    return library.from_gaussian_mechanism(
        noise_multiplier, sampling_prob=rate, value_discretization_interval=interval, pessimistic_estimate=True
    )


def _exchanged(removed: Direction) -> library.PrivacyLossDistribution:
    """A uniform subset of fixed size, a share q of all, when one unit is exchanged for another.

    With Gaussians P and Q whose means are 2S apart, its divergences for ε ≥ 0 are at most H((1−q)Q + qP ‖ Q) (Dong,
    Roth and Su 2022, Theorem 4.2; Zhu, Dong and Wang 2022, Theorem 11), those of Poisson sampling when the unit is
    `removed`. For ε < 0 they follow, because exchanging goes both ways: H(ε) = 1 − e^ε + e^ε·H(−ε). One pair has all
    of them: the mass m of each loss l > 0 as it is, m·e^(−l) at −l, and the rest at 0. It dominates every two
    neighbours, so its compositions dominate theirs.
    """
    assert removed.lower <= 0  # the smallest loss is log(1 − q)
    gains = removed.masses[1 - removed.lower :]
    mirrored = gains * np.exp(-removed.interval * np.arange(1, len(gains) + 1))
    rest = max(0.0, 1.0 - removed.infinite - float(gains.sum()) - float(mirrored.sum()))
    masses = np.concatenate((mirrored[::-1], [rest], gains))
    pmf = pld_pmf.DensePLDPmf(removed.interval, -len(gains), masses, removed.infinite, pessimistic_estimate=True)
    return library.PrivacyLossDistribution(pmf)


def seen_draw(pld: library.PrivacyLossDistribution, chance: float) -> library.PrivacyLossDistribution:
    """A round that happens with probability `chance`, to an adversary who may learn whether it did.

    With Z for "did not happen", H(cP + (1−c)Z ‖ cQ + (1−c)Z) ≤ c·H(P ‖ Q), with equality where Z is told from P and
    Q. The right-hand side is the PLD that has loss 0 with probability 1 − c.
    """
    _check_chance(chance)
    if chance == 1:
        return pld
    interval = both_directions(pld)[0].interval
    return pld.compute_mixture(library.identity(value_discretization_interval=interval), chance)


def _check_chance(chance: float) -> None:
    if not 0 < chance <= 1:
        raise FedveilError(f"sampling rate: must be above 0 and at most 1, not {chance}")


# A distribution composed with itself


@lru_cache(maxsize=64)
def repeated(step: Step, count: int, interval: float) -> library.PrivacyLossDistribution:
    """`count` compositions of a step; plain Gaussians add up to one with z/sqrt(count)."""
    if step.kind == "gaussian":
        return of_step(Step("gaussian", step.noise_multiplier / math.sqrt(count)), interval)
    return _repeatable(step, interval).times(count)


@lru_cache(maxsize=16)
def _repeatable(step: Step, interval: float) -> Repeatable:
    return Repeatable(of_step(step, interval))


class Repeatable:
    """A PLD that is composed with itself now so often, now once more: what does not depend on how often is kept."""

    def __init__(self, pld: library.PrivacyLossDistribution) -> None:
        self._pld = pld
        self._powers = tuple(_Powers(direction) for direction in distinct_directions(pld))

    def times(self, count: int) -> library.PrivacyLossDistribution:
        """The `count`-fold composition."""
        if count == 1:
            return self._pld
        return library.PrivacyLossDistribution(*(power.times(count) for power in self._powers))


class _Powers:
    """Convolutions of one direction with itself, cut as dp_accounting cuts them.

    Outside the window there is at most `CUT` of the mass, by Chernoff's bound. It is charged as an infinite loss, which
    also pays for what the cyclic transform wraps around into the window.
    """

    def __init__(self, direction: Direction) -> None:
        self._direction = direction
        self._spectrum: tuple[int, npt.NDArray[np.complex128]] | None = None

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """Orders, small enough for double precision, and log Σ p·e^(order·j) at each."""
        masses = self._direction.masses
        orders = np.concatenate((np.arange(-20, 0), np.arange(1, 21))) / len(masses)
        places = np.arange(len(masses))
        return orders, np.array([float(np.log(np.exp(places * order) @ masses)) for order in orders])

    def _window(self, count: int) -> tuple[int, int]:
        orders, moments = self._moments
        bounds = (count * moments + math.log(2 / CUT)) / orders
        lower, upper = 0.0, float((len(self._direction.masses) - 1) * count)
        with np.errstate(invalid="ignore"):
            lower = max(lower, float(np.floor(bounds[(orders < 0) & np.isfinite(bounds)]).max(initial=lower)))
            upper = min(upper, float(np.ceil(bounds[(orders > 0) & np.isfinite(bounds)]).min(initial=upper)))
        return int(lower), int(upper)

    def times(self, count: int) -> pld_pmf.PLDPmf:
        lower, upper = self._window(count)
        size = _transform_length(max(upper - lower + 1, len(self._direction.masses)))
        if self._spectrum is None or self._spectrum[0] != size:
            self._spectrum = size, fft.rfft(self._direction.masses, size)
        convolved = fft.irfft(_power(self._spectrum[1], count), size)
        masses = np.roll(convolved, -lower)[: upper - lower + 1]
        infinite = CUT - math.expm1(count * math.log1p(-self._direction.infinite))
        return pld_pmf.DensePLDPmf(
            self._direction.interval, self._direction.lower * count + lower, masses, infinite, pessimistic_estimate=True
        )


def _transform_length(least: int) -> int:
    """2^k or 3·2^k: fast, and the same for neighbouring sizes."""
    power = 1 << (least - 1).bit_length()
    return 3 * power // 4 if 3 * power // 4 >= least else power


def _power(values: npt.NDArray[np.complex128], exponent: int) -> npt.NDArray[np.complex128]:
    """By squaring: a tenth of the time of `**`, and no less exact."""
    result, square = None, values
    while True:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        if not exponent:
            assert result is not None
            return result
        square = square * square
