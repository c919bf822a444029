"""Accounts of methods, in as few words as a test needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from fedveil.accounting import calibrate as calibration
from fedveil.accounting import claims as claiming
from fedveil.accounting import plan as planning
from fedveil.accounting.calibrate import Calibration
from fedveil.accounting.context import Budget, Context
from fedveil.accounting.table import Table
from fedveil.core.guarantee import Claim, Guarantee
from fedveil.core.types import Charge, Population
from fedveil.method import Method


def context(
    method: Method,
    population: Population,
    layers: int,
    delta: float,
    *,
    participation: int | None = None,
    excluding: bool = False,
    **told: Any,
) -> Context:
    """`participation` is a limit of the sampler; `excluding` adds a budget that leaves single clients out."""
    if participation is not None:
        method = replace(method, cohort=replace(method.cohort, most=participation))
    if excluding:
        told["budget"] = Budget(1e6, delta)
    return Context(method, population, layers, delta, **told)


def plan(
    method: Method,
    population: Population,
    layers: int,
    *,
    delta: float,
    rounds: int | None = None,
    secondary: bool = False,
    **told: Any,
) -> Table:
    return planning.plan(context(method, population, layers, delta, **told), rounds, secondary=secondary)


def calibrate(
    method: Method, population: Population, layers: int, target: Budget, *, solve: str = "noise", **told: Any
) -> Calibration:
    return calibration.calibrate(context(method, population, layers, target.delta, **told), target, solve=solve)


def claims(method: Method, population: Population, layers: int, *, delta: float) -> tuple[Claim, ...]:
    return claiming.claims(Context(method, population, layers, delta))


def replay(
    charges: Iterable[Charge],
    population: Population,
    method: Method,
    layers: int,
    *,
    delta: float,
    rounds: int,
    attempts: Sequence[int] | None = None,
    **told: Any,
) -> Table:
    return planning.replay(context(method, population, layers, delta, **told), charges, rounds, attempts=attempts)


def texts(cell: Guarantee) -> list[str]:
    """What is said of a cell."""
    return [caveat.text for caveat in cell.caveats]
