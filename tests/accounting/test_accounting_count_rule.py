"""Measurements at sites compose with the training, in every cell, and never vanish."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from fedveil.accounting.alone import bounds_of, spent_over, table_alone
from fedveil.accounting.calibrate import calibrate
from fedveil.accounting.compose import Term, certify, composition
from fedveil.accounting.context import Budget, Context
from fedveil.accounting.count_rule import IN_MEMORY, WHOLE_CLIENT
from fedveil.accounting.events import Step
from fedveil.accounting.plan import plan, replay
from fedveil.core.errors import FedveilError
from fedveil.core.types import Charge, Population, Unit, View
from fedveil.mechanisms.right_counts import RightCounts
from fedveil.parts.cohorts import Everyone
from fedveil.runs.budgeted_admission import admission_of
from fedveil.zoo import named

STOP = replace(named("fed-cdp-calibrated").stop, rounds=4)
METHOD = replace(named("fed-cdp-calibrated"), stop=STOP, cohort=Everyone())
BY_CLIENT = replace(named("fed-sdp-client"), stop=STOP, cohort=Everyone())
COUNTS, RARE = RightCounts(5.0, every=2), RightCounts(20.0, every=4)


def context(counts: RightCounts | None = COUNTS, **more: object) -> Context:
    return Context(METHOD, Population((600, 500)), 2, 1e-5, counts=counts, **more)  # type: ignore[arg-type]


def gaussians(z: float, times: int) -> float:
    return certify(composition(Term(((Step("gaussian", z), 1),), times=times)), 1e-5).epsilon


def test_the_table_has_the_training_and_the_measurements() -> None:
    for view in (View.SERVER, View.RELEASED, View.CLIENT):
        without, with_counts = (plan(context(c)).of(Unit.RECORD, view).epsilon for c in (None, COUNTS))
        assert without < with_counts < without + gaussians(5.0, 2) + 0.01
    declared = [(one.declarations, times) for one, times in context().rounds(range(4), 600)]
    answers = [declarations for declarations, times in declared for _ in range(times)]
    alone = spent_over([bounds_of([*answers, *[(COUNTS.declare(30),)] * 2], 600, Unit.RECORD, View.SERVER)], 1e-5)
    assert table_alone(context(), 0).of(Unit.RECORD, View.SERVER).epsilon == pytest.approx(alone, rel=1e-6)


def test_what_was_spent_counts_the_measurements_too() -> None:
    whole = context()
    charges = [
        Charge(round, client, one)
        for round in range(4)
        for client, records in enumerate(whole.population.records)
        for one in whole.round(round, records).declarations
    ]
    spent = replay(whole, charges, 4).of(Unit.RECORD, View.SERVER).epsilon
    less = replay(replace(whole, counts=None), charges, 4).of(Unit.RECORD, View.SERVER).epsilon
    assert spent > less


@pytest.mark.parametrize("counts", [[COUNTS.declare(9)], [COUNTS.declare(9)] * 7])
def test_measurements_alone_are_gaussians_of_their_noise(counts: list[object]) -> None:
    answers = [(one,) for one in counts]
    spent = spent_over([bounds_of(answers, 600, Unit.RECORD, View.SERVER)], 1e-5)  # type: ignore[arg-type]
    assert spent == pytest.approx(gaussians(5.0, len(counts)), rel=1e-9)


def test_under_exchange_a_measurement_moves_further() -> None:
    shuffled = replace(METHOD, batch=named("fed-cdp").batch, example=named("fed-cdp").example)
    table = plan(replace(context(), method=shuffled)).of(Unit.RECORD, View.SERVER)
    alone = plan(replace(context(None), method=shuffled)).of(Unit.RECORD, View.SERVER)
    assert table.relation is alone.relation
    assert table.epsilon > alone.epsilon


@pytest.mark.parametrize(
    ("unit", "view", "reason"),
    [(Unit.CLIENT, View.SERVER, WHOLE_CLIENT), (Unit.CLIENT, View.RELEASED, WHOLE_CLIENT)],
)
def test_a_whole_client_is_not_hidden_by_counts(unit: Unit, view: View, reason: str) -> None:
    whole = replace(context(), method=BY_CLIENT)
    assert plan(replace(whole, counts=None)).of(unit, view).epsilon < math.inf
    cell = plan(whole).of(unit, view)
    assert cell.epsilon == math.inf
    assert reason in str(cell)


def test_answers_in_memory_have_no_noise() -> None:
    bounds = bounds_of([(COUNTS.declare(9),)], 600, Unit.RECORD, View.ON_DEVICE)
    assert (bounds.bounds, set(bounds.reasons)) == ((), {IN_MEMORY})


def test_calibration_leaves_room_for_the_measurements() -> None:
    target = Budget(1.0, 1e-5)
    more, less = (calibrate(context(c), target) for c in (RARE, None))
    assert more.guarantee.epsilon <= 1.0
    assert more.value > less.value


def test_a_budget_leaves_room_for_the_measurements() -> None:
    without = plan(context(None)).of(Unit.RECORD, View.SERVER).epsilon
    budget = Budget(without * 1.001, 1e-5)
    assert admission_of(context(None, budget=budget), []).left(0) >= [4, 4]
    assert 1 <= min(admission_of(context(RARE, budget=budget), []).left(0)) < 4
    with pytest.raises(FedveilError, match="beside what sites count"):
        admission_of(context(budget=budget), [])
    with pytest.raises(FedveilError, match="hides one record"):
        admission_of(replace(context(budget=Budget(8.0, 1e-5, Unit.CLIENT)), method=BY_CLIENT), [])
