"""Roughly how long a reproduction takes, for the list of them."""

from __future__ import annotations

from typing import Any

from fedveil.config.spec import Spec, resolve
from fedveil.core.errors import FedveilError
from fedveil.core.types import View
from fedveil.data.known_sets import known_set
from fedveil.papers.catalogue import REPRODUCTIONS
from fedveil.papers.planned_work import Plan, make_plan, run_name, spec_of
from fedveil.papers.reproduction import Leak, Scale
from fedveil.report.model.number_texts import duration_text

NETWORKS = {"prifedsync-mnist": 1500.0, "prifedsync-cifar": 450.0, "geyer-mlp": 110.0}
"""Microseconds of two cores for one record's gradient, where it is not the network of the data set's task."""

START = 3.0
"""Seconds before the first round of a run."""


def seconds(plan: Plan) -> float:
    """Of one seed."""
    specs = {run_name(spec): spec for spec in (spec_of(work, lambda stated: 1.0) for work in plan.trainings)}
    leaks = {repr(cell.work): cell.work for cell in plan.cells if isinstance(cell.work, Leak)}
    return sum(map(_training, specs.values())) + sum(map(_leak, leaks.values()))


def _training(spec: Spec) -> float:
    method, data, costs = spec.method, spec.data, known_set(spec.data.name).costs
    records = data.records or 500
    cohort, batch = method.cohort.divisor(data.clients), method.batch.declared(records)
    work = cohort * method.rounds * method.local_steps(records) * batch
    evaluations = method.rounds / spec.evaluation.every + 1
    return (
        work * NETWORKS.get(spec.model.name, costs.gradient_microseconds) / 1e6
        + evaluations * costs.evaluation_seconds
        + START
    )


def _leak(work: Leak) -> float:
    """Noise stops an attack at once, and one clean record is found after a few iterations."""
    spec = resolve(work.source, work.overrides)
    method, on_device = spec.method, work.view is View.ON_DEVICE
    if method.noises_rows or (not on_device and (method.example or method.upload)):
        return START
    records = 1 if on_device else spec.method.batch.declared(spec.data.records or 1)
    victims, iterations = work.options.get("victims", 100), work.options.get("iterations", 300)
    hundreds = float(victims * min(iterations, 20 if records == 1 else iterations) / 100)
    cost = known_set(spec.data.name).costs.attack_seconds
    if cost is None:
        raise FedveilError(f"data set '{spec.data.name}': nobody has measured how long an attack takes")
    return START + hundreds * records * cost


def listing() -> list[dict[str, Any]]:
    """Every reproduction with its title and, for each scale, the time for one seed in words."""
    scales: tuple[Scale, ...] = ("small", "paper")
    return [
        {"name": name, "title": one.title}
        | {scale: duration_text(seconds(make_plan(one, scale, (1,)))) for scale in scales}
        for name, one in REPRODUCTIONS.items()
    ]
