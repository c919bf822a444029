"""Run directories of formats 1 (fedveil 0.1) and 2 are read; what can't be done with them is said in one line."""

from __future__ import annotations

import json
import math
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from older_runs import MAKERS, as_format

from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import CaveatKind
from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset
from fedveil.runs.account import account
from fedveil.runs.book import check_records
from fedveil.runs.files import RunFiles
from fedveil.runs.read import read_run
from fedveil.runs.run import resume, run
from fedveil.studies.attack import opened
from fedveil.studies.histories import read_histories
from fedveil.studies.report import report

SERVER = (Unit.RECORD, View.SERVER)

both_formats = pytest.mark.parametrize("form", [1, 2])


@pytest.fixture
def finished(tmp_path: Path, tiny: dict[str, Any], blobs: Dataset) -> Path:
    run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    return tmp_path / "run"


@both_formats
def test_what_was_spent_is_accounted_as_before_and_said_to_be_not_chained(
    form: int, finished: Path, blobs: Dataset
) -> None:
    before = account(finished)
    as_format(finished, form, blobs)
    after = account(finished)
    assert before.spent is not None
    assert after.spent is not None
    for mine, theirs in ((after.spent, before.spent), (after.promised, before.promised)):
        assert [cell.epsilon for cell in mine.guarantees] == [cell.epsilon for cell in theirs.guarantees]
    assert "not chained" in str(after.ledger)
    assert "not chained" not in str(before.ledger)


@both_formats
def test_it_is_reported_and_shown(form: int, finished: Path, blobs: Dataset, tmp_path: Path) -> None:
    as_format(finished, form, blobs)
    made = report([finished], tmp_path / "page.html")
    assert made.runs[0].problems == ()
    assert made.runs[0].spent is not None
    assert "not private: seeded" in (tmp_path / "page.html").read_text()
    assert "not chained" in (tmp_path / "page.html").read_text()
    report([finished], tmp_path / "released.html", release=True)
    assert len(read_histories([finished])[0].rounds) == 4


@both_formats
def test_its_last_model_is_attacked_although_it_has_no_digest(form: int, finished: Path, blobs: Dataset) -> None:
    _, before = opened(finished, dataset=blobs)
    as_format(finished, form, blobs)
    _, after = opened(finished, dataset=blobs)
    assert after.parameters.equal(before.parameters)


@both_formats
def test_its_records_are_still_told_from_others(form: int, finished: Path, blobs: Dataset, pictures: Dataset) -> None:
    as_format(finished, form, blobs)
    check_records(RunFiles(finished), blobs)
    with pytest.raises(FedveilError, match="the records are not those that the run began with"):
        check_records(RunFiles(finished), pictures)


def test_how_it_ended_keeps_every_sentence_that_was_said_of_its_numbers(finished: Path, blobs: Dataset) -> None:
    before = resume(finished, workers=1)
    as_format(finished, 1, blobs)
    after = resume(finished, workers=1)
    assert (after.accuracy, after.receipts) == (before.accuracy, before.receipts)
    mine, its = after.of(*SERVER), before.of(*SERVER)
    assert mine.epsilon == its.epsilon
    assert [caveat.text for caveat in mine.caveats] == [caveat.text for caveat in its.caveats]
    assert {caveat.kind for caveat in mine.caveats} == {CaveatKind.UNTYPED}
    assert "not private: seeded" in str(mine)  # what can't be weighed is never left out


@both_formats
def test_an_unfinished_one_is_accounted_and_not_continued(form: int, finished: Path, blobs: Dataset) -> None:
    (finished / "result.json").unlink()
    as_format(finished, form, blobs)
    spent = account(finished).spent
    assert spent is not None
    assert 0 < spent.of(*SERVER).epsilon < math.inf
    before = (finished / "ledger.sqlite").read_bytes()
    made = rf"made by fedveil {MAKERS[form]} in format {form}; .* go on with the version that made it"
    with pytest.raises(FedveilError, match=made):
        resume(finished, workers=1)
    assert (finished / "ledger.sqlite").read_bytes() == before


def edit(directory: Path, statement: str) -> None:
    database = sqlite3.connect(directory / "ledger.sqlite")
    with database:
        database.execute(statement)
    database.close()


EDITS = {
    "no receipts": "DELETE FROM receipts",
    "no charges": "DELETE FROM charges",
    "one charge less": "DELETE FROM charges WHERE rowid = 3",
    "one receipt less": "DELETE FROM receipts WHERE rowid = 3",
    "no rounds": "DELETE FROM rounds",
    "more noise": "UPDATE declarations SET declaration = replace(declaration, '\"sum_std\": ', '\"sum_std\": 9')",
    "a smaller batch": "UPDATE declarations SET declaration = replace(declaration, '\"batch\": 5', '\"batch\": 4')",
}
"""Format 1 kept its charges among its receipts."""


@pytest.mark.parametrize(
    ("form", "name"), [(form, name) for form in (1, 2) for name in EDITS if form == 2 or "charge" not in name]
)
def test_a_ledger_that_says_less_than_the_spec_is_refused_although_it_is_not_chained(
    form: int, name: str, finished: Path, blobs: Dataset
) -> None:
    as_format(finished, form, blobs)
    edit(finished, EDITS[name])
    with pytest.raises(FedveilError, match="ledger"):
        account(finished)
    with pytest.raises(FedveilError, match="ledger"):
        resume(finished)
    reading = read_run(finished)
    assert reading.book is None
    assert any("ledger" in problem for problem in reading.problems)


def test_a_run_of_this_format_is_not_read_with_a_ledger_of_an_older_one(
    tmp_path: Path, tiny: dict[str, Any], blobs: Dataset
) -> None:
    """An older ledger is not chained: putting one in place of a chained one would make every change possible."""
    run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    manifest = (tmp_path / "run/run.json").read_text()
    as_format(tmp_path / "run", 2, blobs)
    (tmp_path / "run/run.json").write_text(manifest)
    with pytest.raises(FedveilError, match="of an older format than the run"):
        account(tmp_path / "run")


def test_a_chained_ledger_stays_chained_whatever_the_directory_says_of_its_format(finished: Path) -> None:
    manifest = json.loads((finished / "run.json").read_text())
    (finished / "run.json").write_text(json.dumps(manifest | {"format": 2}))
    with pytest.raises(FedveilError, match=r"run\.json was changed after the run began"):
        account(finished)
