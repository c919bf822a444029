"""How a run ended, as it is read back."""

from __future__ import annotations

import json
import math
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from older_runs import ROW_EPSILON, as_format

from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset
from fedveil.ledger.store import Ledger
from fedveil.runs.account import account
from fedveil.runs.read import read_run
from fedveil.runs.run import resume, run
from fedveil.studies.report import report, run_facts

ROWS, SERVER = (Unit.RECORD, View.ON_DEVICE), (Unit.RECORD, View.SERVER)

both_formats = pytest.mark.parametrize("form", [1, 2])


@pytest.fixture
def finished(tmp_path: Path, tiny: dict[str, Any], blobs: Dataset) -> Path:
    run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    return tmp_path / "run"


def test_a_run_that_noises_its_rows_says_what_that_is_worth(
    tmp_path: Path, tiny: dict[str, Any], blobs: Dataset
) -> None:
    directory = tmp_path / "rows"
    result = run("fed-cdp", {**tiny, "example.each_row": True}, out=directory, workers=1, dataset=blobs)
    assert result.of(*SERVER).epsilon < result.of(*ROWS).epsilon < math.inf
    again, spent = resume(directory), account(directory).spent
    assert again.of(*ROWS) == result.of(*ROWS)
    assert spent is not None
    assert spent.of(*ROWS) == result.of(*ROWS)


def test_a_run_that_does_not_writes_down_no_noise_on_rows(finished: Path) -> None:
    with Ledger(finished / "ledger.sqlite") as ledger:
        for entry in ledger.rounds():
            assert {charge.declared.row_std for charge in entry.charges} == {0.0}
            assert {receipt.did.row_std for receipt in entry.receipts or ()} == {0.0}


@both_formats
def test_noise_on_rows_that_an_old_run_declared_is_believed_nowhere(
    form: int, finished: Path, tmp_path: Path, blobs: Dataset
) -> None:
    before = resume(finished)
    as_format(finished, form, blobs)
    database = sqlite3.connect(finished / "ledger.sqlite")
    said = database.execute("SELECT json_extract(declaration, '$.row_std') FROM declarations").fetchall()
    database.close()
    assert all(row_std > 0 for (row_std,) in said)
    stored = json.loads((finished / "result.json").read_text())["guarantees"]
    assert [cell["epsilon"] for cell in stored if cell["view"] == "on_device"] == [ROW_EPSILON, "inf"]
    told = account(finished)
    assert told.spent is not None
    page = report([finished], tmp_path / "page.html").runs[0]
    assert page.problems == ()
    for cells in (resume(finished).guarantees, told.spent.guarantees, page.spent or ()):
        assert [cell.epsilon for cell in cells] == [cell.epsilon for cell in before.guarantees]
    for guarantee in (resume(finished).of(*ROWS), told.spent.of(*ROWS), told.promised.of(*ROWS)):
        assert guarantee.epsilon == math.inf
        assert "example.each_row" in guarantee.reason


def test_what_an_old_run_kept_is_not_believed_either_where_nothing_else_is_left(finished: Path, blobs: Dataset) -> None:
    as_format(finished, 2, blobs)
    manifest = json.loads((finished / "run.json").read_text())
    (finished / "run.json").write_text(json.dumps({key: manifest[key] for key in manifest if key != "terms"}))
    cells = run_facts(read_run(finished), "run").spent
    assert cells is not None
    finite = {cell.name: cell.finite for cell in cells}
    assert (finite["record × server"], finite["record × on_device"]) == (True, False)
