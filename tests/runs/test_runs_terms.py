"""The terms of a run: what it writes down is what it was accounted by, and what clients have left they may spend."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset, Examples
from fedveil.ledger.store import Ledger
from fedveil.runs.account import claimed, promised, promised_course, spent, spent_course
from fedveil.runs.budgeted_admission import Budgeted, budget_of
from fedveil.runs.prepare import Prepared, prepare
from fedveil.runs.run import resume, run
from fedveil.runs.terms import from_record, to_record


@pytest.fixture
def prepared(blobs: Dataset, tiny: dict[str, Any]) -> Prepared:
    changes = {"privacy.epsilon": 2.0, "example.sigma": 3.0, "cohort.most": 9, "stop.rounds": 30}
    return prepare(resolve("fed-cdp", {**tiny, **changes}), blobs)


def test_a_table_from_what_was_written_down_is_the_table(prepared: Prepared) -> None:
    told = json.loads(json.dumps(to_record(prepared)))
    recorded = from_record(prepared.spec, told)
    assert recorded is not None
    assert recorded.population == prepared.population
    mine, its = promised(recorded, delta=1e-5), promised(prepared, delta=1e-5)
    assert mine.guarantees == its.guarantees
    assert claimed(recorded, 1e-5) == claimed(prepared, 1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"records_of_clients": [[30, 9]]},
        {"records_of_clients": [[0, 10]]},
        {"records_of_clients": [[30, 11], [30, -1]]},
        {"records_of_clients": "many"},
        {"layers": 0},
        {"copies": None},
        {"seeded": "no"},
    ],
)
def test_terms_that_make_no_sense_are_not_taken(prepared: Prepared, change: dict[str, Any]) -> None:
    assert from_record(prepared.spec, to_record(prepared) | change) is None


def test_a_seeded_spec_is_seeded_whatever_is_written_beside_it(prepared: Prepared) -> None:
    recorded = from_record(prepared.spec, to_record(prepared) | {"seeded": False})
    assert recorded is not None
    assert recorded.seeded


def test_what_is_left_is_exactly_what_a_client_may_still_spend(prepared: Prepared) -> None:
    budget = budget_of(prepared)
    assert budget is not None
    spending = Budgeted(prepared, budget, [(0, [0, 1]), (1, [0])])
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
        budget = budget_of(ready)
        assert budget is not None
        spending, rounds[name] = Budgeted(ready, budget, []), 0
        while rounds[name] < 30 and spending.candidates(rounds[name]):
            spending.took_part(rounds[name], [0])
            rounds[name] += 1
        assert promised(ready, delta=1e-5, rounds=rounds[name]).of(budget.unit, budget.view).epsilon <= 2.0
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
        budget = budget_of(ready)
        assert budget is not None
        left[view] = Budgeted(ready, budget, []).left(0)[0]
    assert (left["peer"] == left["server"]) is (personal == "attention")


def test_the_course_ends_at_the_table(blobs: Dataset, tiny: dict[str, Any], tmp_path: Path) -> None:
    run("fed-cdp", tiny, dataset=blobs, out=tmp_path / "r", workers=1)
    ready = prepare(resolve(tmp_path / "r" / "spec.toml"), blobs)
    with Ledger(tmp_path / "r" / "ledger.sqlite") as ledger:
        receipts, attempts = ledger.receipts(), [round for round, _, _ in ledger.rounds()]
    for cell in [(found.unit, found.view) for found in promised(ready, delta=1e-5).guarantees]:
        values = spent_course(ready, receipts, attempts, [1, 2, 4], cell)
        assert values == sorted(values)
        assert values[-1] == spent(ready, receipts, 4, 1e-5, attempts).of(*cell).epsilon
        assert promised_course(ready, [2, 4], cell)[-1] == promised(ready, delta=1e-5).of(*cell).epsilon


def test_other_data_under_the_same_spec_do_not_go_on_with_a_run(
    blobs: Dataset, tiny: dict[str, Any], tmp_path: Path
) -> None:
    run("fed-cdp", tiny, dataset=blobs, out=tmp_path / "r", workers=1)
    (tmp_path / "r" / "result.json").unlink()
    fewer = replace(blobs, train=Examples(blobs.train.inputs[:290], blobs.train.labels[:290]))  # some are held twice
    with pytest.raises(FedveilError, match="who holds how many"):
        resume(tmp_path / "r", workers=1, dataset=fewer)
    assert resume(tmp_path / "r", workers=1, dataset=blobs).rounds == 4
