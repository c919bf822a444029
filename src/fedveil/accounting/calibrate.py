"""The smallest noise, the most rounds or the largest cohort that keep one cell of the table within a target."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from fedveil.accounting.budget import largest
from fedveil.accounting.context import Budget, Context, RiskTarget
from fedveil.accounting.plan import plan
from fedveil.accounting.table import Table
from fedveil.core.checks import one_of
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Guarantee
from fedveil.core.progress import tell
from fedveil.core.types import Population
from fedveil.mechanisms.adaptive import Quantile
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.method import Method
from fedveil.parts.cohorts import FixedSize, PoissonCohort

TOLERANCE = 1e-3
"""Relative; the answer always keeps the target, and one smaller by more than this does not."""
_CALIBRATING, _BRACKETED = "calibrating", 0.3
"""The work as whoever watches knows it, and the share of it that finds a value on either side of the answer."""

LEAST_SIGMA, MOST_SIGMA, LONGEST_TRAINING = 1e-3, 1e5, 100_000


@dataclass(frozen=True)
class Calibration:
    """The answer: its value, the method with it, and the guarantee that this method has."""

    solved: str
    value: float
    method: Method
    guarantee: Guarantee

    @property
    def key(self) -> str:
        """The key of a spec that sets the answer."""
        if self.solved == "noise":
            return f"{_place(self.method)}.sigma"
        if self.solved == "rounds":
            return "stop.rounds"
        return "cohort.size" if isinstance(self.method.cohort, FixedSize) else "cohort.rate"


@dataclass(frozen=True)
class _Measured:
    """What a method has of what is limited, and the guarantee it belongs to."""

    value: float
    limit: float
    guarantee: Guarantee

    @property
    def keeps(self) -> bool:
        return self.value <= self.limit

    @property
    def excess(self) -> float:
        """log(value/limit): above 0 where the target is not kept."""
        return math.log(max(self.value, 1e-9) / self.limit) if math.isfinite(self.value) else math.inf


Evaluate = Callable[[Method], _Measured]


def calibrate(context: Context, target: Budget | RiskTarget, *, solve: str = "noise") -> Calibration:
    """Solve for `noise` (σ, to 1e-3), `rounds` (T) or `cohort` (its rate or size), everything else as it is."""
    one_of("solve", solve, ("noise", "rounds", "cohort"))
    method, single = (
        context.method,
        replace(context, delta=target.delta, copies=1),
    )  # what copies cost is not solved for

    def evaluate(candidate: Method) -> _Measured:
        return _measured(plan(replace(single, method=candidate)), target)

    if solve == "noise":
        value, solved = _noise(method, target, evaluate)
    elif solve == "rounds":
        value, solved = _rounds(method, evaluate)
    else:
        value, solved = _cohort(method, context.population, evaluate)
    tell(_CALIBRATING, 1.0)
    found = _measured(plan(replace(context, delta=target.delta, method=solved)), target)
    if not found.keeps:
        raise FedveilError(f"calibration: found {solve} = {value}, but it does not keep the target")
    return Calibration(solve, value, solved, found.guarantee)


def _measured(table: Table, target: Budget | RiskTarget) -> _Measured:
    guarantee = table.of(target.unit, target.view)
    if isinstance(target, Budget):
        return _Measured(guarantee.epsilon, target.epsilon, guarantee)
    if guarantee.risk is None:
        return _Measured(math.inf, 1.0, guarantee)
    if target.advantage is not None:
        return _Measured(guarantee.risk.advantage, target.advantage, guarantee)
    assert target.tpr is not None
    assert target.fpr is not None
    return _Measured(table.hit_rate(target.unit, target.view, target.fpr), target.tpr, guarantee)


def with_sigma(method: Method, sigma: float) -> Method:
    """The method with this σ in the one place where it adds noise."""
    changes: dict[str, Any] = {_place(method): replace(_gaussian(method), sigma=sigma)}
    return replace(method, **changes)


def _gaussian(method: Method) -> Gaussian:
    return method.mechanisms[_place(method)]


def _place(method: Method) -> str:
    places = list(method.mechanisms)
    if len(places) != 1:
        raise FedveilError(f"calibration: needs exactly one mechanism that adds noise, this method has {len(places)}")
    return places[0]


def _noise(method: Method, target: Budget | RiskTarget, evaluate: Evaluate) -> tuple[float, Method]:
    """log ε falls about evenly with log σ, so a false position in logarithms needs few evaluations.

    `high` always keeps the target and `low` never does.
    """
    if isinstance(target, Budget) and target.epsilon == 0:
        raise FedveilError("epsilon: no finite noise gives ε = 0")

    def excess(sigma: float) -> float:
        return evaluate(with_sigma(method, sigma)).excess

    low, at_low, high, at_high = _bracket(method, target, evaluate, excess)
    above, first = True, math.log(high / low)
    while high > low * (1 + TOLERANCE):
        width = math.log(high / low)
        tell(_CALIBRATING, _BRACKETED + (1 - _BRACKETED) * _closed(width, first))
        share = at_low / (at_low - at_high) if math.isfinite(at_low) and at_high < 0 else 0.5
        nudge = 0.4 * TOLERANCE / width  # just beyond the expected root, so that the bracket closes from both sides
        aim = min(max(share + (nudge if above else -nudge), 0.1), 0.9)
        middle = low * math.exp(aim * width)
        value = excess(middle)
        if value > 0:
            low, at_low, above = middle, value, True
        else:
            high, at_high, above = middle, value, False
    return high, with_sigma(method, high)


def _closed(width: float, first: float) -> float:
    """The share of the way from a bracket of the `first` width to one as narrow as the tolerance."""
    narrow = math.log1p(TOLERANCE)
    return min(math.log(first / width) / math.log(first / narrow), 1.0) if first > narrow else 1.0


def _bracket(
    method: Method, target: Budget | RiskTarget, evaluate: Evaluate, excess: Callable[[float], float]
) -> tuple[float, float, float, float]:
    """A σ that does not keep the target and one that does, each with log(ε/target)."""
    sigma = min(max(_gaussian(method).sigma, 0.1), 1000.0)
    tell(_CALIBRATING, 0.0)
    value = excess(sigma)
    tell(_CALIBRATING, _BRACKETED / 3)
    most = _most_sigma(method)
    if value > 0:
        top = evaluate(with_sigma(method, most))
        if not top.guarantee.finite:
            raise FedveilError(f"calibration: no noise can help {target.cell}: {top.guarantee.reason}")
        if not top.keeps:
            raise FedveilError(
                f"calibration: even σ = {most:g} gives ε = {top.guarantee.epsilon:.4g}, more than is asked"
            )
    while value > 0:
        low, at_low = sigma, value
        tell(_CALIBRATING, _BRACKETED / 2)
        sigma = min(sigma * math.exp(min(max(1.05 * value, 0.05), 3.0)), most)
        value = excess(sigma)
        if value <= 0:
            return low, at_low, sigma, value
    while value <= 0:
        high, at_high = sigma, value
        tell(_CALIBRATING, _BRACKETED / 2)
        sigma = sigma * math.exp(max(min(1.05 * value, -0.05), -1.0))
        if sigma < LEAST_SIGMA:
            raise FedveilError(f"calibration: the target is so large that σ = {LEAST_SIGMA:g} keeps it")
        value = excess(sigma)
    return sigma, value, high, at_high


def _most_sigma(method: Method) -> float:
    """The reports of a bound that follows a quantile have a noise of their own, which σ must stay below."""
    adaptive = _gaussian(method).adaptive
    return min(MOST_SIGMA, 0.999 * adaptive.multiplier) if isinstance(adaptive, Quantile) else MOST_SIGMA


def _rounds(method: Method, evaluate: Evaluate) -> tuple[float, Method]:
    def lasting(rounds: int) -> Method:
        return replace(method, stop=replace(method.stop, rounds=rounds))

    most = largest(lambda rounds: evaluate(lasting(rounds)).keeps, LONGEST_TRAINING, _tell_share)
    if most == 0:
        first = evaluate(lasting(1)).guarantee
        raise FedveilError(f"calibration: not even one round fits: {first}")
    return most, lasting(most)


def _tell_share(share: float) -> None:
    tell(_CALIBRATING, share)


def _cohort(method: Method, population: Population, evaluate: Evaluate) -> tuple[float, Method]:
    """The largest rate of a Poisson cohort (in thousandths of itself) or the largest size of a fixed one."""

    def keeps(candidate: Method) -> bool:
        return evaluate(candidate).keeps

    if isinstance(method.cohort, FixedSize):
        fixed = method.cohort  # with its limit, without which the answer would not hold

        def fits(size: int) -> bool:
            grown = (replace(fixed, size=size).at(round, method.rounds) for round in range(method.rounds))
            return all(one.size <= population.clients for one in grown)

        most = largest(fits, population.clients)
        size = largest(lambda size: keeps(replace(method, cohort=replace(fixed, size=size))), most, _tell_share)
        if size == 0:
            raise FedveilError(f"calibration: no cohort is small enough: {evaluate(method).guarantee}")
        return size, replace(method, cohort=replace(fixed, size=size))
    if not isinstance(method.cohort, PoissonCohort):
        raise FedveilError("calibration: everyone takes part, so there is no cohort to choose")
    coins, least = method.cohort, 1e-6

    def at(rate: float) -> Method:
        return replace(method, cohort=replace(coins, rate=rate))

    if keeps(at(1.0)):
        return 1.0, at(1.0)
    if not keeps(at(least)):
        raise FedveilError(f"calibration: no cohort is small enough: {evaluate(method).guarantee}")
    low, high, first = least, 1.0, math.log(1.0 / least)
    while high > low * (1 + TOLERANCE):
        tell(_CALIBRATING, _closed(math.log(high / low), first))
        middle = math.sqrt(low * high)
        low, high = (middle, high) if keeps(at(middle)) else (low, middle)
    return low, at(low)
