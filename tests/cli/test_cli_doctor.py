"""`doctor`, `completion`, and that every JSON output says its version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedveil.studies import doctor


def test_doctor_names_what_is_missing_what_that_disables_and_the_command_that_mends_it(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path))
    monkeypatch.setattr("fedveil.data.sources.cache_directory", lambda: tmp_path / "cache")
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "mlflow" else object())
    monkeypatch.setattr(doctor, "BROWSERS", ("no-such-browser",))
    code, out, _ = call("doctor", "--json")
    assert code == 0
    findings = {one["name"]: one for one in json.loads(out)["findings"]}
    assert findings["data set mnist"]["mend"] == "fedveil data fetch mnist"
    assert findings["data set cancer"]["well"]
    assert findings["extra mlflow"]["mend"] == "pip install 'fedveil[mlflow]'"
    assert "opening reports" in findings["browser"]["disables"]
    assert findings["Python"]["well"]
    text = call("doctor")[1]
    assert "to mend it: fedveil data fetch mnist" in text
    assert max(len(line) for line in text.splitlines() if str(tmp_path) not in line) <= 80


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(call: Any, shell: str) -> None:
    code, out, _ = call("completion", shell)
    assert code == 0
    assert "_FEDVEIL_COMPLETE" in out


@pytest.mark.parametrize(
    "words", [["methods"], ["data", "list"], ["explain", "fedavg", "--set", "data.name=cancer"], ["reproduce"]]
)
def test_every_json_output_says_its_version(call: Any, words: list[str]) -> None:
    code, out, err = call(*words, "--json")
    assert code == 0, err
    assert json.loads(out)["version"] == 1
