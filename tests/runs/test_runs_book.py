"""A run's ledger is held to what else the run wrote down, and the records to a key that is not in it."""

from __future__ import annotations

import hashlib
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedveil.core.digests import keyed_digest, text_digest
from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset, Examples
from fedveil.ledger.anchor import KEY_VARIABLE, anchor_path
from fedveil.ledger.store import Ledger
from fedveil.runs.account import account
from fedveil.runs.book import check_records
from fedveil.runs.files import RunFiles
from fedveil.runs.read import read_run
from fedveil.runs.run import resume, run


@pytest.fixture
def files(tmp_path: Path, tiny: dict[str, Any], blobs: Dataset) -> RunFiles:
    run("fed-cdp", {**tiny, "seed": "none"}, out=tmp_path / "run", workers=1, dataset=blobs)
    return RunFiles(tmp_path / "run")


def others(blobs: Dataset) -> Dataset:
    return replace(blobs, train=Examples(blobs.train.inputs + 1, blobs.train.labels))


# The records


def test_the_ledger_has_no_hash_that_records_can_be_compared_with(files: RunFiles, blobs: Dataset) -> None:
    key = files.records_key.read_bytes()
    assert len(key) == 32
    assert stat.S_IMODE(files.records_key.stat().st_mode) == 0o600
    content = b"".join(path.read_bytes() for path in files.directory.rglob("*") if path.is_file())
    assert blobs.fingerprint.encode() not in content
    assert text_digest(blobs.fingerprint).encode() not in content
    assert hashlib.sha256(blobs.fingerprint.encode()).hexdigest().encode() not in content
    without_key = b"".join(
        path.read_bytes() for path in files.directory.rglob("*") if path.is_file() and path != files.records_key
    )
    assert key not in without_key
    assert key.hex().encode() not in without_key
    assert text_digest(keyed_digest(key, blobs.fingerprint)).encode() in files.ledger.read_bytes()


def test_two_runs_on_the_same_records_cannot_be_linked_by_them(
    files: RunFiles, tmp_path: Path, tiny: dict[str, Any], blobs: Dataset
) -> None:
    run("fed-cdp", {**tiny, "seed": "none"}, out=tmp_path / "again", workers=1, dataset=blobs)
    assert files.records_key.read_bytes() != RunFiles(tmp_path / "again").records_key.read_bytes()


def test_records_are_told_from_others(files: RunFiles, blobs: Dataset) -> None:
    check_records(files, replace(blobs))
    with pytest.raises(FedveilError, match="the records are not those that the run began with"):
        check_records(files, others(blobs))


def test_without_the_key_all_but_the_records_is_checked(files: RunFiles, blobs: Dataset) -> None:
    before = account(files.directory)
    files.records_key.unlink()
    assert before.spent is not None
    assert account(files.directory).spent == before.spent
    assert read_run(files.directory).problems == []
    assert resume(files.directory).rounds == 4  # it is finished; nothing is trained
    for go_on in (lambda: check_records(files, blobs), lambda: resume(files.directory, dataset=blobs)):
        with pytest.raises(
            FedveilError, match=r"records\.key: is missing, so whether these are the records of the run"
        ):
            go_on()


def test_a_run_does_not_go_on_without_its_key_or_with_another(files: RunFiles, blobs: Dataset) -> None:
    files.result.unlink()
    key = files.records_key.read_bytes()
    for content, words in ((None, "is missing"), (b"short", "not the key of 32 bytes"), (b"x" * 32, "the records are")):
        files.records_key.unlink(missing_ok=True)
        if content is not None:
            files.records_key.write_bytes(content)
        with pytest.raises(FedveilError, match=words):
            resume(files.directory, workers=1, dataset=blobs)
    files.records_key.write_bytes(key)
    assert resume(files.directory, workers=1, dataset=blobs).rounds == 4


def test_a_run_that_is_killed_before_it_began_leaves_no_key_behind(tmp_path: Path) -> None:
    files = RunFiles(tmp_path / "run")
    files.create()
    files.spec.write_text("")
    files.records_key.write_bytes(b"k" * 32)
    files.clear_beginning()
    assert list(files.directory.iterdir()) == []


# The other files


@pytest.mark.parametrize("statement", ["DELETE FROM entries", "DELETE FROM entries WHERE id > 1"])
def test_an_emptied_ledger_is_an_error_and_not_an_epsilon_of_zero(statement: str, files: RunFiles, call: Any) -> None:
    database = sqlite3.connect(files.ledger)
    with database:
        database.execute(statement)
    database.close()
    code, out, err = call("account", str(files.directory))
    assert (code, out) == (2, "")
    assert "of the 9 entries that ledger.head knows of" in err
    assert call("resume", str(files.directory))[0] == 2
    code, out, _ = call("report", str(files.directory), "--out", "page.html", "--json")
    assert code == 0
    assert "of the 9 entries" in out
    assert call("report", str(files.directory), "--for-release", "--out", "page.html")[0] == 2


def test_run_json_is_held_to_the_ledger_to_the_last_character(files: RunFiles) -> None:
    files.manifest.write_text(files.manifest.read_text().replace('"initial": ', '"initial": 1'))
    with pytest.raises(FedveilError, match=r"run\.json was changed after the run began; put it back as it was"):
        account(files.directory)
    reading = read_run(files.directory)
    assert reading.changed
    assert reading.book is None


def test_a_ledger_that_is_held_to_nothing_is_refused(files: RunFiles) -> None:
    files.result.unlink()
    for path in (files.ledger, anchor_path(files.ledger)):
        path.unlink()
    with Ledger(files.ledger) as ledger:
        ledger.begin({})
    with pytest.raises(FedveilError, match="has no digest of the context"):
        account(files.directory)
    assert read_run(files.directory).problems != []


# The head, and a key of one's own


def test_account_prints_the_head_and_holds_the_ledger_to_one_that_was_written_down(files: RunFiles, call: Any) -> None:
    code, out, _ = call("account", str(files.directory))
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.startswith("ledger: ")]
    head = line.removeprefix("ledger: 9 entries, head ")
    assert len(head) == 16
    assert resume(files.directory).ledger_head is not None
    assert str(resume(files.directory).ledger_head).startswith(head)
    assert call("account", str(files.directory), "--head", head)[:2] == (0, out)
    code, _, err = call("account", str(files.directory), "--head", "0" * 16)
    assert code == 2
    assert "the ledger never had the head 0000000000000000" in err
    code, _, err = call("account", str(files.directory), "--head", "abc")
    assert (code, err.startswith("fedveil: --head: must be at least 16 characters")) == (2, True)
    code, _, err = call("account", "fed-cdp", "--head", head)
    assert (code, "--head: is that of a run's ledger" in err) == (2, True)


def test_a_run_with_a_key_is_sealed_and_goes_on_and_is_accounted_with_it(
    tmp_path: Path, tiny: dict[str, Any], blobs: Dataset, monkeypatch: pytest.MonkeyPatch, call: Any
) -> None:
    (tmp_path / "key").write_bytes(b"k" * 32)
    (tmp_path / "other").write_bytes(b"o" * 32)
    files = RunFiles(tmp_path / "sealed")
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "key"))
    run("fed-cdp", tiny, out=files.directory, workers=1, dataset=blobs)
    assert "sealed with your key" in str(account(files.directory).ledger)
    files.result.unlink()
    assert resume(files.directory, workers=1, dataset=blobs).rounds == 4
    assert b"k" * 32 not in b"".join(path.read_bytes() for path in files.directory.rglob("*") if path.is_file())
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "other"))
    code, _, err = call("account", str(files.directory))
    assert (code, "the ledger is not sealed with the key" in err) == (2, True)
    monkeypatch.delenv(KEY_VARIABLE)
    assert "was not checked" in call("account", str(files.directory))[1]
