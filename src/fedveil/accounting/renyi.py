"""Rényi differential privacy by dp_accounting: secondary values, and the certificate where no PLD can be had.

Every value here is an upper bound: orders that did not converge, or came out negative, count as ∞. The library is
imported when it is needed, which it seldom is: it takes longer to load than a certificate takes to check.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedveil.accounting.events import Step

if TYPE_CHECKING:
    import dp_accounting

Orders = npt.NDArray[np.float64]

ORDERS: Orders = np.array(
    [1 + x / 10 for x in range(1, 100)] + [*range(11, 64), 80, 96, 128, 192, 256, 512, 1024], dtype=np.float64
)
RENYI_ROUNDING = 1e-13
"""What rounding may have taken from (α − 1)·D_α of one step."""

LITTLE_NOISE, LEAST_NOISE = 0.4, 0.05
"""Below the first, only whole orders; below the second, sampling is taken to hide nothing."""

_EXPECTED = "_compute_log_a_frac failed to converge"


class _Expected(logging.Filter):
    """Lets everything pass but the notice that an order was left out, which the library gives by the dozen."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith(_EXPECTED)


@contextmanager
def quiet() -> Iterator[None]:
    """No notices about left-out orders inside; every other message of the library is heard."""
    logger, sieve = logging.getLogger("absl"), _Expected()
    logger.addFilter(sieve)
    try:
        yield
    finally:
        logger.removeFilter(sieve)


@lru_cache(maxsize=256)
def _step_divergences(step: Step) -> tuple[float, ...]:
    plain = ORDERS / (2 * step.noise_multiplier**2)
    if step.kind == "gaussian":
        return tuple(plain)
    if step.kind == "without-replacement":
        import dp_accounting

        # Replace-one with z relative to 2S. The event takes the ratio of its two sizes and nothing else.
        event = dp_accounting.SampledWithoutReplacementDpEvent(
            1.0, step.rate, dp_accounting.GaussianDpEvent(step.noise_multiplier)
        )
        sampled = _divergences(event, dp_accounting.NeighboringRelation.REPLACE_ONE)
        return tuple(np.minimum(plain, sampled))
    if step.kind == "hidden-record":  # the draw taken as seen
        return tuple(_mixture(step.rate, 4 * plain, np.zeros_like(plain)))
    if step.kind == "group":  # as many as a batch can hold, in every one
        return tuple(plain * step.slots**2)
    if step.kind == "gathered":  # nobody else's noise
        return tuple(plain)
    if step.kind == "allocated":  # in a step that is known
        return tuple(plain if step.overflow == 0 else _mixture(step.overflow, 4 * plain, plain))
    usual = _poisson(step.rate, step.noise_multiplier)
    if step.overflow == 0:
        return tuple(usual)
    cut = _poisson(step.rate, step.noise_multiplier / 2)
    return tuple(_mixture(step.overflow, cut, usual))


def _poisson(rate: float, noise_multiplier: float) -> Orders:
    import dp_accounting

    gaussian = dp_accounting.GaussianDpEvent(noise_multiplier)
    sampled = _divergences(
        dp_accounting.PoissonSampledDpEvent(rate, gaussian), dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    return np.minimum(ORDERS / (2 * noise_multiplier**2), sampled)


def _divergences(event: dp_accounting.DpEvent, relation: dp_accounting.NeighboringRelation) -> Orders:
    """With very little noise the series for fractional orders takes minutes, so only whole orders are computed."""
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    noise = event.event.noise_multiplier
    wanted = (np.round(ORDERS) == ORDERS) | (noise >= LITTLE_NOISE)
    wanted &= noise >= LEAST_NOISE
    divergences: Orders = np.full(len(ORDERS), np.inf)
    if wanted.any():
        with quiet(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            accountant = rdp.RdpAccountant(ORDERS[wanted], relation)
            # Noise beyond what the library's logarithms can tell from ∞ (z ≥ 6e7) leaves only the unsampled value.
            with suppress(ArithmeticError, ValueError):
                accountant.compose(event)
                divergences[wanted] = accountant.rdp
    sound = np.isfinite(divergences) & (divergences > -RENYI_ROUNDING)
    raised: Orders = np.where(sound, np.maximum(divergences, 0.0) + RENYI_ROUNDING / (ORDERS - 1), np.inf)
    return raised


def _mixture(chance: float, first: Orders, second: Orders) -> Orders:
    """D_α when a coin that is seen decides which mechanism runs: the mean of exp((α−1)·D_α) over the coin."""
    scale = ORDERS - 1
    with np.errstate(divide="ignore"):
        weights = np.log(chance), np.log1p(-chance)
    mean: Orders = np.logaddexp(weights[0] + scale * first, weights[1] + scale * second) / scale
    return mean


def term_divergences(
    counted: tuple[tuple[Step, int], ...], chance: float, times: int, law: tuple[float, ...] | None = None
) -> Orders:
    """D_α of `times` rounds, in each of which all the `counted` steps are made with probability `chance`, else none.

    With a `law`, of n rounds with probability `law[n]`: the mean of exp((α−1)·n·D_α) over it.
    """
    together = np.zeros_like(ORDERS)
    for step, count in counted:
        together = together + count * np.array(_step_divergences(step))
    if law is not None:
        scale = ORDERS - 1
        cases = [
            np.log(weight) + (scale * n * together if n else 0.0 * scale) for n, weight in enumerate(law) if weight > 0
        ]
        return np.asarray(np.logaddexp.reduce(cases) / scale)
    if chance < 1:
        together = _mixture(chance, together, np.zeros_like(ORDERS))
    return times * together


def epsilon_at(divergences: Orders, delta: float) -> float:
    """The smallest ε over the orders at δ."""
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    usable = np.isfinite(divergences)
    if not usable.any():
        return float("inf")
    epsilon, _ = rdp.compute_epsilon(ORDERS[usable], np.maximum(divergences[usable], 0.0), delta)
    return float(epsilon)


def delta_at(divergences: Orders, epsilon: float) -> float:
    """The smallest δ over the orders at ε."""
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    usable = np.isfinite(divergences)
    if not usable.any():
        return 1.0
    delta, _ = rdp.compute_delta(ORDERS[usable], np.maximum(divergences[usable], 0.0), epsilon)
    return min(float(delta), 1.0)
