"""`reproduce`, used as a person uses it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fedveil.papers import catalogue as known
from fedveil.papers.catalogue import REPRODUCTIONS
from fedveil.papers.reproduction import Cell, Training
from fedveil.papers.values import final_accuracy


@pytest.fixture
def call(call: Any) -> Any:
    """Calls `fedveil reproduce`."""
    return partial(call, "reproduce")


def test_one_column_of_a_table_is_made_and_made_again_from_what_is_there(call: Any) -> None:
    arguments = ["fed-cdp-table-3", "--only", "*/cancer", "--workers", "1", "--page", "docs/times.md"]
    code, out, err = call(*arguments)
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0].split() == ["row", "column", "paper", "ours"]
    assert [line.split()[0] for line in lines[1:5]] == ["non-private", "Fed-SDP", "Fed-CDP", "Fed-CDP(decay)"]
    assert "runs/reproduce/fed-cdp-table-3-small: table.md, table.csv, picture.png; page: docs/times.md" in out
    assert "4/4 cancer-fed-cdp-decay" in err
    assert Path("docs/times.md").read_text(encoding="utf-8").startswith("# Fed-CDP, Table III")
    code, out, err = call(*arguments, "--json")
    assert code == 0
    assert err == "4 of 4 runs are finished already\n"
    assert [row["paper"] for row in json.loads(out)["rows"]] == [5.1, 5.1, 11.9, 12.0]


def test_without_a_name_all_are_listed(call: Any) -> None:
    code, out, _ = call()
    assert code == 0
    assert "fed-cdp-table-7" in out
    assert "geyer-table-1" in out
    assert "prifedsync-figure-6" in out
    assert "ldp-sgd-clipping" in out


MISTAKES: list[tuple[list[str], str]] = [
    (["fed-cdp-table-9"], "there is no reproduction 'fed-cdp-table-9'; there are fed-cdp-table-1, fed-cdp-table-2"),
    (["fed-cdp-table-3", "--only", "nobody"], "--only: nobody: nothing has that name"),
    (["fed-cdp-table-3", "--seeds", "0"], "--seeds: must be at least 1, not 0"),
    (["fed-cdp-table-3", "--only", "*/cancer", "--workers", "0"], "workers: must be at least 1"),
    (["fed-cdp-table-3", "--only", "*/cancer", "--out", "/dev/null/here"], "Not a directory"),
    (["fed-cdp-table-3", "--page", "."], "--page: . is a directory; give the name of a file that ends in .md"),
    (["fed-cdp-table-3", "--page", "table.png"], "--page: table.png must end in .md"),
    (["fed-cdp-table-3", "--scale", "huge"], "Invalid value for '--scale'"),
]


@pytest.mark.parametrize(("arguments", "words"), MISTAKES)
def test_mistakes_are_one_line(call: Any, arguments: list[str], words: str) -> None:
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_missing_data_is_said_with_the_command_that_fetches_it(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, _, err = call("fed-cdp-table-2", "--only", "Fed-CDP/K=100 5%")
    assert code == 2
    assert "run: fedveil data fetch mnist" in err
    assert not Path("runs").exists()


def test_part_of_a_table_needs_only_the_data_of_that_part(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, out, err = call("fed-cdp-table-4", "--only", "cancer/*", "--no-training")
    assert code == 0, err
    assert out.splitlines()[1].startswith("cancer")
    assert "rows not run, and left out: MNIST, CIFAR-10, LFW, adult" in out
    assert "MNIST |" not in Path("runs/reproduce/fed-cdp-table-4-small/table.md").read_text(encoding="utf-8")
    code, _, err = call("fed-cdp-table-4", "--only", "LFW/*verified*", "--no-training")
    assert code == 2
    assert "run: fedveil data fetch lfw" in err


def test_runs_that_failed_end_the_command_with_an_error_after_the_files_are_written(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = REPRODUCTIONS["fed-cdp-table-3"]
    wild = {"data.name": "cancer", "local.steps": 1, "local.rate": 1e12, "aggregate.rate": 1e30, "stop.rounds": 2}
    cells = [Cell("wild", "cancer", Training("fedavg", wild), final_accuracy, added=True)]
    monkeypatch.setattr(known, "REPRODUCTIONS", {whole.name: replace(whole, cells=lambda scale: cells)})
    for more in ([], ["--json"]):
        code, out, err = call(whole.name, "--workers", "1", "--page", "page.md", *more)
        assert code == 2
        assert err.splitlines()[-1].startswith("fedveil: 1 of the runs failed: cancer-fedavg-")
        assert "diverged" in out
        assert "diverged" in Path("page.md").read_text(encoding="utf-8")
