"""Roughly how long a reproduction takes, for the list of them."""

from __future__ import annotations

from typing import Any

from fedveil.experiment.reproduce.catalogue import catalogue
from fedveil.experiment.reproduce.declare import Leak, Scale
from fedveil.experiment.reproduce.plan import Plan, make_plan, run_name, settle
from fedveil.experiment.spec import Spec
from fedveil.parts.batches import FullBatch
from fedveil.parts.cohorts import Everyone, FixedSize, PoissonCohort
from fedveil.report.several import duration

MICROSECONDS = {"mnist": 35.0, "cifar10": 450.0, "lfw": 500.0, "adult": 12.0, "cancer": 8.0}
"""Of two cores for one record's gradient in the network of the task; measured once, for orientation only."""

EVALUATION = {"mnist": 0.3, "cifar10": 1.5, "lfw": 0.3, "adult": 0.02, "cancer": 0.01}
"""Seconds of two cores for one evaluation."""

ATTACK = {"mnist": 0.5, "lfw": 2.0}
"""Seconds of two cores for one victim and 100 iterations."""


def seconds(plan: Plan) -> float:
    """Of one seed."""
    specs = {run_name(spec): spec for spec in (settle(work, lambda stated: 1.0) for work in plan.trainings)}
    leaks = {repr(cell.work): cell.work for cell in plan.cells if isinstance(cell.work, Leak)}
    return sum(map(_training, specs.values())) + sum(map(_leak, leaks.values()))


def _training(spec: Spec) -> float:
    method, data = spec.method, spec.data
    records = data.records or 500
    batch = records if isinstance(method.batch, FullBatch) else method.batch.declared(records)
    work = _cohort(spec) * method.rounds * method.local_steps(records) * batch
    evaluations = method.rounds / spec.evaluation.every + 1
    return work * MICROSECONDS.get(data.name, 50.0) / 1e6 + evaluations * EVALUATION.get(data.name, 0.1) + 2.0


def _cohort(spec: Spec) -> float:
    cohort = spec.method.cohort
    if isinstance(cohort, Everyone):
        return spec.data.clients
    if isinstance(cohort, PoissonCohort):
        return cohort.rate * spec.data.clients
    assert isinstance(cohort, FixedSize)
    return cohort.size


def _leak(work: Leak) -> float:
    data = str(work.overrides.get("data.name", "mnist"))
    victims, iterations = work.options.get("victims", 100), work.options.get("iterations", 300)
    return float(victims * iterations / 100 * ATTACK.get(data, 1.0))


def listing() -> list[dict[str, Any]]:
    """Every reproduction with its title and, for each scale, the time for one seed in words."""
    scales: tuple[Scale, ...] = ("small", "paper")
    return [
        {"name": name, "title": one.title} | {scale: duration(seconds(make_plan(one, scale, (1,)))) for scale in scales}
        for name, one in catalogue().items()
    ]
