"""How a run ended, as it is read back."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from old_runs import DECLARED_EPSILON, declare_noise_on_rows

from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset
from fedveil.runs.account import account
from fedveil.runs.read import read_run
from fedveil.runs.run import resume, run
from fedveil.studies.report import report, run_facts

ROWS, SERVER = (Unit.RECORD, View.ON_DEVICE), (Unit.RECORD, View.SERVER)


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
    from fedveil.ledger.store import Ledger

    with Ledger(finished / "ledger.sqlite") as ledger:
        assert {charge.declared.row_std for charge in ledger.charges()} == {0.0}
        assert {receipt.did.row_std for receipt in ledger.receipts()} == {0.0}


def test_noise_on_rows_that_an_old_run_declared_is_believed_nowhere(finished: Path, tmp_path: Path) -> None:
    before = resume(finished)
    declare_noise_on_rows(finished)
    stored = json.loads((finished / "result.json").read_text())["guarantees"]
    assert DECLARED_EPSILON in [cell["epsilon"] for cell in stored]
    told = account(finished)
    assert told.spent is not None
    page = report([finished], tmp_path / "page.html").runs[0]
    assert page.problems == ()
    for cells in (resume(finished).guarantees, told.spent.guarantees, page.spent):
        assert cells == before.guarantees
    for table in (told.spent, told.promised):
        assert table.of(*SERVER).finite
        assert table.of(*ROWS).epsilon == math.inf
        assert "example.each_row" in table.of(*ROWS).reason


def test_what_an_old_run_kept_is_not_believed_either_where_nothing_else_is_left(finished: Path) -> None:
    declare_noise_on_rows(finished)
    manifest = json.loads((finished / "run.json").read_text())
    (finished / "run.json").write_text(json.dumps({key: manifest[key] for key in manifest if key != "terms"}))
    cells = run_facts(read_run(finished), "run").spent
    assert cells is not None
    assert {cell.name: cell.finite for cell in cells}["record × server"]
    assert not {cell.name: cell.finite for cell in cells}["record × on_device"]


def test_an_old_run_goes_on_and_its_rows_stay_bare(tmp_path: Path, tiny: dict[str, Any], blobs: Dataset) -> None:
    whole = run("fed-cdp", tiny, out=tmp_path / "whole", workers=1, dataset=blobs)
    run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    (tmp_path / "run" / "result.json").unlink()
    declare_noise_on_rows(tmp_path / "run")
    again = resume(tmp_path / "run", workers=1, dataset=blobs)
    assert again.guarantees == whole.guarantees
    assert again.of(*ROWS).epsilon == math.inf
