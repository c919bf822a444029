"""`reproduce`, used as a person uses it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fedveil.cli import main


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedveil", "reproduce", *arguments])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


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
    (["fed-cdp-table-3", "--only", "nobody"], "--only nobody: nothing has that name"),
    (["fed-cdp-table-3", "--seeds", "0"], "--seeds: must be at least 1, not 0"),
    (["fed-cdp-table-3", "--only", "*/cancer", "--workers", "0"], "workers must be at least 1"),
    (["fed-cdp-table-3", "--only", "*/cancer", "--out", "/dev/null/here"], "Not a directory"),
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
