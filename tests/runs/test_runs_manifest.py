"""The context of a run: what it writes down is what it was accounted by."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedveil.accounting.plan import plan
from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset, Examples
from fedveil.runs.manifest import context_record, read_context
from fedveil.runs.prepare import Prepared, prepare
from fedveil.runs.run import resume, run


@pytest.fixture
def prepared(blobs: Dataset, tiny: dict[str, Any]) -> Prepared:
    changes = {"privacy.epsilon": 2.0, "example.sigma": 3.0, "cohort.most": 9, "stop.rounds": 30}
    return prepare(resolve("fed-cdp", {**tiny, **changes}), blobs)


def test_a_table_from_what_was_written_down_is_the_table(prepared: Prepared) -> None:
    told = json.loads(json.dumps(context_record(prepared.context)))
    recorded = read_context(prepared.spec, told)
    assert recorded is not None
    assert recorded.population == prepared.context.population
    assert recorded == prepared.context
    assert plan(recorded).guarantees == plan(prepared.context).guarantees


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
def test_a_context_that_makes_no_sense_is_not_taken(prepared: Prepared, change: dict[str, Any]) -> None:
    assert read_context(prepared.spec, context_record(prepared.context) | change) is None


def test_a_seeded_spec_is_seeded_whatever_is_written_beside_it(prepared: Prepared) -> None:
    recorded = read_context(prepared.spec, context_record(prepared.context) | {"seeded": False})
    assert recorded is not None
    assert recorded.seeded


def test_other_data_under_the_same_spec_do_not_go_on_with_a_run(
    blobs: Dataset, tiny: dict[str, Any], tmp_path: Path
) -> None:
    run("fed-cdp", tiny, dataset=blobs, out=tmp_path / "r", workers=1)
    (tmp_path / "r" / "result.json").unlink()
    fewer = replace(blobs, train=Examples(blobs.train.inputs[:290], blobs.train.labels[:290]))  # some are held twice
    with pytest.raises(FedveilError, match="who holds how many"):
        resume(tmp_path / "r", workers=1, dataset=fewer)
    assert resume(tmp_path / "r", workers=1, dataset=blobs).rounds == 4
