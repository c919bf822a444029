"""Reading a run: nothing that it names is run or loaded, and only its owner sees who took part."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset
from fedveil.report.terminal.run_progress import SilentReporter
from fedveil.runs.account import account
from fedveil.runs.files import RunFiles
from fedveil.runs.run import resume, run
from fedveil.studies.histories import show
from fedveil.studies.report import report


@pytest.fixture
def finished(tmp_path: Path, tiny: dict[str, Any], blobs: Dataset) -> Path:
    run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    return tmp_path / "run"


@pytest.mark.parametrize("ledger", [True, False])
def test_no_reading_command_imports_what_a_strangers_run_names(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: bool
) -> None:
    (tmp_path / "evil_module.py").write_text("raise AssertionError('it was imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    spec = finished / "spec.toml"
    spec.write_text(spec.read_text().replace('name = "mlp"', 'name = "evil_module:factory"'))
    manifest = json.loads((finished / "run.json").read_text())
    del manifest["terms"]
    (finished / "run.json").write_text(json.dumps(manifest))
    if not ledger:
        (finished / "ledger.sqlite").unlink()
    report([finished], tmp_path / "page.html")
    show([finished], tmp_path / "picture.png")
    with pytest.raises(FedveilError):
        account(finished)
    with pytest.raises(FedveilError):
        report([finished], tmp_path / "page.html", release=True)
    assert "evil_module" not in sys.modules
    assert "does not say who holds how many records" in (tmp_path / "page.html").read_text()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_tells_who_took_part_is_its_owners_alone(tmp_path: Path, tiny: dict[str, Any], blobs: Dataset) -> None:
    settings = {**tiny, "personal": "identity"}
    run("fed-cdp", settings, out=tmp_path / "run", workers=1, dataset=blobs)
    assert {mode(tmp_path / "run" / name) for name in ("ledger.sqlite", "events.jsonl")} == {0o600}
    assert mode(tmp_path / "run" / "clients") == 0o700


@pytest.mark.parametrize("change", [{"accuracy": "high"}, {"rounds": [4]}, {"seconds": {}}, {"guarantees": [3]}])
def test_a_result_with_wrong_types_is_one_line(finished: Path, change: dict[str, Any]) -> None:
    files = RunFiles(finished)
    files.write_result(files.read_result() | change)
    with pytest.raises(FedveilError, match="not a result of this version"):
        resume(finished)


def test_events_with_wrong_types_are_left_out(finished: Path, blobs: Dataset) -> None:
    (finished / "result.json").unlink()
    events = [json.loads(line) for line in (finished / "events.jsonl").read_text().splitlines()]
    for event, key in zip(
        [e for e in events if e["event"] == "round"], ("seconds", "rejected", "clients"), strict=False
    ):
        event[key] = "many"
    (finished / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    assert resume(finished, workers=1, dataset=blobs).rounds == 4


def test_a_run_that_was_killed_before_it_began_does_not_block_its_directory(
    tmp_path: Path, tiny: dict[str, Any], blobs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    (out / "checkpoints").mkdir(parents=True)
    (out / "spec.toml").write_text("half")
    (out / "schema.toml").write_text("half")
    (out / ".run.json.123.part").write_text("")
    with pytest.raises(FedveilError, match="not empty"):  # it may be another process that is just beginning
        run("fed-cdp", tiny, out=out, workers=1, dataset=blobs)
    monkeypatch.setattr("fedveil.runs.files.BEGINNING_SECONDS", 0.0)
    assert run("fed-cdp", tiny, out=out, workers=1, dataset=blobs).rounds == 4
    assert not list(out.glob(".*.part"))


def test_what_killed_processes_left_half_written_goes_with_the_next_resume(finished: Path, blobs: Dataset) -> None:
    (finished / "result.json").unlink()
    for folder in (finished, finished / "checkpoints"):
        (folder / ".something.99.part").write_text("half")
    resume(finished, workers=1, dataset=blobs)
    assert not list(finished.glob("**/.*.part"))


def test_a_spec_of_ones_own_in_the_directory_is_left_alone(
    tmp_path: Path, tiny: dict[str, Any], blobs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedveil.runs.files.BEGINNING_SECONDS", 0.0)
    (tmp_path / "spec.toml").write_text("mine")
    with pytest.raises(FedveilError, match="not empty"):
        run("fed-cdp", tiny, out=tmp_path, workers=1, dataset=blobs)
    assert (tmp_path / "spec.toml").read_text() == "mine"


def test_a_training_that_diverged_says_so_in_the_run_its_result_and_its_report(
    tmp_path: Path, tiny: dict[str, Any], blobs: Dataset
) -> None:
    notes: list[str] = []

    class Noting(SilentReporter):
        def note(self, text: str) -> None:
            notes.append(text)

    wild = {**tiny, "local.rate": 1e6, "local.steps": 2}
    result = run("fedavg", wild, out=tmp_path / "run", workers=1, dataset=blobs, reporter=Noting())
    assert result.diverged
    assert any(note.startswith("the training diverged: its last loss is ") for note in notes)
    assert json.loads((tmp_path / "run/result.json").read_text())["diverged"] is True
    report([tmp_path / "run"], tmp_path / "page.html")
    assert "The training diverged" in (tmp_path / "page.html").read_text()
    assert not run("fedavg", tiny, out=tmp_path / "calm", workers=1, dataset=blobs).diverged
