"""Each named site's own ε: from its own records and its own rounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedveil.accounting.context import Budget, Context
from fedveil.accounting.plan import plan, replay
from fedveil.accounting.site_table import own_cell, site_guarantees
from fedveil.core.site_guarantees import SiteGuarantees
from fedveil.core.types import Charge, Population, Unit, View
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import Constant
from fedveil.method import Method
from fedveil.parts.batches import PoissonBatch
from fedveil.parts.cohorts import Everyone, FixedSize
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.stopping import Stop

SIZES = {"large": 1000, "small": 50, "middle": 200}
METHOD = Method(
    cohort=Everyone(),
    batch=PoissonBatch(20),
    local=LocalTraining(steps=2, rate=Constant(0.1)),
    example=Gaussian(clip=Clip(Constant(1.0)), sigma=2.0),
    stop=Stop(rounds=6),
)


def context(method: Method = METHOD) -> Context:
    return Context(method, Population(tuple(SIZES.values()), tuple(SIZES)), layers=2, delta=1e-5)


def alone(records: int, rounds: int) -> float:
    """What a training with this one site would cost it."""
    single = replace(context(), population=Population((records,)))
    return plan(single, rounds).of(Unit.RECORD, View.SERVER).epsilon


def test_a_site_with_fewer_records_has_a_larger_epsilon() -> None:
    found = site_guarantees(plan(context()))
    assert found is not None
    assert (found.cell, found.delta) == ("record × server", 1e-5)
    promised = {site.name: site.promised for site in found.sites}
    assert promised == pytest.approx({name: alone(records, 6) for name, records in SIZES.items()})
    assert promised["large"] < promised["middle"] < promised["small"]
    assert max(promised.values()) == plan(context()).of(Unit.RECORD, View.SERVER).epsilon


def test_a_site_that_took_part_more_often_has_spent_more() -> None:
    method = replace(METHOD, cohort=FixedSize(1))
    drawn = {0: [0, 1, 2, 3], 2: [4, 5]}  # site: its rounds; the small one is never drawn
    charges = [
        Charge(round, site, declared)
        for site, rounds in drawn.items()
        for round in rounds
        for declared in method.declare(round, list(SIZES.values())[site], 2, 3)
    ]
    found = site_guarantees(plan(context(method)), replay(context(method), charges, 6), (4, 0, 2))
    assert found is not None
    spent = {site.name: (site.rounds, site.spent) for site in found.sites}
    assert spent["small"] == (0, 0.0)
    assert spent["large"] == (4, pytest.approx(alone(1000, 4)))
    assert spent["middle"] == (2, pytest.approx(alone(200, 2)))


def test_the_cell_is_that_of_the_budget() -> None:
    budget = Budget(3.0, 1e-5, Unit.RECORD, View.RELEASED)
    assert own_cell(plan(replace(context(), budget=budget))) == (Unit.RECORD, View.RELEASED)


def test_clients_without_names_and_trainings_without_a_promise_have_no_table() -> None:
    assert site_guarantees(plan(replace(context(), population=Population((100, 20))))) is None
    assert site_guarantees(plan(context(replace(METHOD, example=None)))) is None


def test_the_table_of_sites_survives_json() -> None:
    found = site_guarantees(plan(context()))
    assert found is not None
    assert SiteGuarantees.from_dict(found.to_dict()) == found
    endless = replace(found, sites=(replace(found.sites[0], spent=float("inf"), rounds=3),))
    assert SiteGuarantees.from_dict(endless.to_dict()) == endless
