"""Run directories of fedveil 0.1 (format 1) are read; what can't be done with them is said in one line."""

from __future__ import annotations

import json
import math
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import CaveatKind
from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset
from fedveil.runs.account import account
from fedveil.runs.files import RunFiles
from fedveil.runs.run import resume, run
from fedveil.studies.histories import read_histories
from fedveil.studies.report import report

SERVER = (Unit.RECORD, View.SERVER)


def as_first_format(directory: Path) -> None:
    """Write a run down as fedveil 0.1 did: one row for a charge and its receipt, caveats as sentences."""
    files = RunFiles(directory)
    manifest = json.loads(files.manifest.read_text()) | {"format": 1, "fedveil": "0.1.0"}
    files.manifest.write_text(json.dumps(manifest))
    if files.result.exists():
        result = json.loads(files.result.read_text())
        for cell in result["guarantees"]:
            cell["caveats"] = [caveat["text"] for caveat in cell["caveats"]]
        files.result.write_text(json.dumps(result))
    database = sqlite3.connect(files.ledger)
    with database:
        database.executescript(
            "CREATE TABLE old AS SELECT charges.round_id, charges.client, charges.declaration_id,"
            " receipts.rowid IS NOT NULL AS confirmed, coalesce(draws, 0) AS draws FROM charges LEFT JOIN receipts"
            " USING (round_id, client, declaration_id) ORDER BY charges.rowid;"
            "DROP TABLE charges; DROP TABLE executed; DROP TABLE receipts; ALTER TABLE old RENAME TO receipts;"
        )
    database.execute("VACUUM")
    database.close()


@pytest.fixture
def finished(tmp_path: Path, tiny: dict[str, Any], blobs: Dataset) -> Path:
    run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    return tmp_path / "run"


def test_what_was_spent_is_accounted_as_before(finished: Path) -> None:
    before = account(finished)
    as_first_format(finished)
    after = account(finished)
    assert before.spent is not None
    assert after.spent is not None
    assert after.spent.guarantees == before.spent.guarantees
    assert after.promised.guarantees == before.promised.guarantees


def test_it_is_reported_and_shown(finished: Path, tmp_path: Path) -> None:
    as_first_format(finished)
    made = report([finished], tmp_path / "page.html")
    assert made.runs[0].problems == ()
    assert made.runs[0].spent is not None
    assert "not private: seeded" in (tmp_path / "page.html").read_text()
    report([finished], tmp_path / "released.html", release=True)
    assert len(read_histories([finished])[0].rounds) == 4


def test_how_it_ended_keeps_every_sentence_that_was_said_of_its_numbers(finished: Path) -> None:
    before = resume(finished, workers=1)
    as_first_format(finished)
    after = resume(finished, workers=1)
    assert (after.accuracy, after.receipts) == (before.accuracy, before.receipts)
    mine, its = after.of(*SERVER), before.of(*SERVER)
    assert mine.epsilon == its.epsilon
    assert [caveat.text for caveat in mine.caveats] == [caveat.text for caveat in its.caveats]
    assert {caveat.kind for caveat in mine.caveats} == {CaveatKind.UNTYPED}
    assert "not private: seeded" in str(mine)  # what can't be weighed is never left out


def test_an_unfinished_one_is_accounted_and_not_continued(finished: Path) -> None:
    (finished / "result.json").unlink()
    as_first_format(finished)
    spent = account(finished).spent
    assert spent is not None
    assert 0 < spent.of(*SERVER).epsilon < math.inf
    before = (finished / "ledger.sqlite").read_bytes()
    with pytest.raises(FedveilError, match=r"made by fedveil 0\.1\.0 in format 1; .* only fedveil 0\.1\.0 goes on"):
        resume(finished, workers=1)
    assert (finished / "ledger.sqlite").read_bytes() == before
