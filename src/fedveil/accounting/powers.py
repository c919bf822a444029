"""A privacy loss distribution composed with itself, again and again: what does not depend on how often is kept."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as library
from scipy import fft

from fedveil.accounting.events import Step
from fedveil.accounting.losses import Direction, Values, distinct_directions, of_step

CUT = 1e-15
"""The mass in the tails that a composition may leave out of its grid; it counts as an infinite loss."""


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
    def _moments(self) -> tuple[Values, Values]:
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
