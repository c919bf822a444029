"""What clients have left they may spend, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from fedveil.accounting.plan import plan
from fedveil.config.spec import resolve
from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset
from fedveil.runs.budgeted_admission import admission_of
from fedveil.runs.prepare import Prepared, prepare


@pytest.fixture
def prepared(blobs: Dataset, tiny: dict[str, Any]) -> Prepared:
    changes = {"privacy.epsilon": 2.0, "example.sigma": 3.0, "cohort.most": 9, "stop.rounds": 30}
    return prepare(resolve("fed-cdp", {**tiny, **changes}), blobs)


def test_what_is_left_is_exactly_what_a_client_may_still_spend(prepared: Prepared) -> None:
    spending = admission_of(prepared.context, [(0, [0, 1]), (1, [0])])
    left = spending.left(2)
    assert left[0] == left[1] - 1 == left[2] - 2
    assert 0 < left[0] < 9
    for round in range(2, 2 + left[0]):
        assert 0 in spending.candidates(round)
        spending.took_part(round, [0])
    assert 0 not in spending.candidates(2 + left[0])
    assert spending.left(2 + left[0])[0] == 0


def test_a_budget_counts_a_growing_cohort_at_the_size_of_each_round(blobs: Dataset, tiny: dict[str, Any]) -> None:
    """Against the published models a larger cohort hides a client's draw less."""
    told = {**tiny, "server": {"clip": {"bound": 1.0}, "sigma": 4.0, "noise": "sum", "unit": "client"}}
    told |= {"privacy.epsilon": 2.0, "privacy.unit": "client", "privacy.view": "released", "stop.rounds": 30}
    growing = {"kind": "fixed", "size": 1, "growth": {"kind": "linear", "start": 1.0, "end": 8.0}}
    rounds = {}
    for name, cohort in (("growing", growing), ("small", {"kind": "fixed", "size": 1})):
        ready = prepare(resolve("fedavg", told | {"cohort": cohort}), blobs)
        spending, rounds[name] = admission_of(ready.context, []), 0
        while rounds[name] < 30 and spending.candidates(rounds[name]):
            spending.took_part(rounds[name], [0])
            rounds[name] += 1
        assert plan(ready.context, rounds[name]).of(Unit.CLIENT, View.RELEASED).epsilon <= 2.0
    assert 0 < rounds["growing"] < rounds["small"]


@pytest.mark.parametrize("personal", ["shared", "attention"])
def test_a_budget_against_peers_that_get_mixtures_is_that_against_the_server(
    blobs: Dataset, tiny: dict[str, Any], personal: str
) -> None:
    told = {**tiny, "cohort": {"kind": "poisson", "rate": 0.3}, "example.sigma": 3.0, "personal": personal}
    left = {}
    for view in ("server", "peer"):
        ready = prepare(
            resolve("fed-cdp", told | {"privacy.epsilon": 2.0, "privacy.view": view, "stop.rounds": 99}), blobs
        )
        left[view] = admission_of(ready.context, []).left(0)[0]
    assert (left["peer"] == left["server"]) is (personal == "attention")
