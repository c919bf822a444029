"""What one client counts that counts on nobody else: for a plan, over all plans, in every cell."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from fedveil.accounting.alone import bounds_of, planned_answers, spent_over, table_alone
from fedveil.accounting.context import Context
from fedveil.accounting.lifetime_cells import FIXED_BEFOREHAND, lifetime_cells
from fedveil.core.types import Population, Unit, View
from fedveil.mechanisms.adaptive import CohortMedian
from fedveil.method import Method
from fedveil.parts.batches import PoissonBatch
from fedveil.parts.stopping import Stop
from fedveil.zoo import named

DELTA = 1e-3


def context(method: Method, records: int = 60) -> Context:
    return Context(method, Population((records,)), 2, DELTA)


def record_level() -> Method:
    method = named("fed-cdp-batch")
    return replace(method, batch=PoissonBatch(10), stop=Stop(4))


def test_one_plan_has_the_cells_of_its_own_table() -> None:
    once = context(record_level())
    cells = lifetime_cells([planned_answers(once, 0)], 60, DELTA)
    for cell in cells:
        expected = table_alone(once, 0).of(cell.unit, cell.view)
        assert cell.epsilon == pytest.approx(expected.epsilon)
        if cell.finite:
            assert cell.risk == expected.risk


def test_two_plans_cost_what_both_show_together() -> None:
    answers = planned_answers(context(record_level()), 0)
    one, two = (lifetime_cells([answers] * times, 60, DELTA) for times in (1, 2))
    bounds = [bounds_of(answers, 60, Unit.RECORD, View.SERVER)] * 2
    (cell,) = [cell for cell in two if (cell.unit, cell.view) == (Unit.RECORD, View.SERVER)]
    assert cell.epsilon == spent_over(bounds, DELTA)
    assert all(more.epsilon >= less.epsilon for less, more in zip(one, two, strict=True))
    assert cell.epsilon > one[2].epsilon
    assert FIXED_BEFOREHAND in cell.caveats
    assert FIXED_BEFOREHAND not in one[2].caveats


def test_nothing_was_answered_and_nothing_is_spent() -> None:
    assert {cell.epsilon for cell in lifetime_cells([], 60, DELTA)} == {0.0}
    assert {cell.epsilon for cell in lifetime_cells([[]], 60, DELTA)} == {0.0}


def test_a_plan_without_noise_spoils_all_of_them() -> None:
    plain = replace(record_level(), example=None)
    answers = [planned_answers(context(record_level()), 0), planned_answers(context(plain), 0)]
    for cell in lifetime_cells(answers, 60, DELTA):
        assert math.isinf(cell.epsilon)
        assert cell.reason


def test_a_bound_that_was_read_off_norms_bounds_nothing() -> None:
    leaking, sound = named("geyer"), named("geyer-private")
    assert isinstance(leaking.mechanisms["server"].clip.bound, CohortMedian)

    def spent(method: Any) -> float:
        bounds = bounds_of(planned_answers(context(replace(method, stop=Stop(4))), 0), 60, Unit.CLIENT, View.RELEASED)
        return spent_over([bounds], DELTA)

    assert math.isinf(spent(leaking))
    assert math.isfinite(spent(sound))
