"""`fedveil audit`, used as a person uses it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from planted import no_clip

from fedveil.cli import main
from fedveil.report.terminal.work_progress import WorkProgress
from fedveil.report.terminal.wrapped_lines import COLUMNS

SMALL = ["--set", "data.name=cancer", "--set", "data.records=20", "--set", "local.steps=5", "--seed", "1"]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Calls `fedveil audit` in this process; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedveil", "audit", *arguments, "--workers", "1"])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        return int(stop.value.code or 0), printed.out, printed.err

    return run


def sentences(out: str) -> list[str]:
    """What was printed, with each paragraph, of which all lines but the first are indented, on one line again."""
    assert max(map(len, out.splitlines())) <= COLUMNS
    return out.replace("\n  ", " ").splitlines()


def test_json_is_one_object_with_the_bound_beside_what_is_verified(call: Any, tmp_path: Path) -> None:
    rows = ["--view", "on_device", "--set", "example.each_row=true"]
    code, out, _ = call("fed-cdp", *SMALL, *rows, "--canaries", "60", "--json")
    assert code == 3
    table = json.loads(out)
    asked = {"method": "fed-cdp", "unit": "record", "view": "on_device", "canaries": 60, "confidence": 0.95}
    assert table | asked | {"verdict": "inconclusive", "rounds": 2} == table
    assert table["delta"] == 1e-5
    assert table["epsilon_lower"] <= table["epsilon_verified"]
    assert table["epsilon_lower"] <= table["power"]["possible"]
    assert 0 <= table["power"]["noise"] < 0.5
    assert {check["kind"] for check in table["checks"]} >= {"noise-size", "noise-reuse", "sensitivity"}
    assert not any(check["contradicts"] for check in table["checks"])
    assert table["details"]["guesses"]
    assert not list(tmp_path.iterdir())  # an audit leaves nothing behind


def test_the_words_say_that_nothing_was_promised(call: Any) -> None:
    code, out, _ = call("fedavg", *SMALL, "--unit", "client", "--rounds", "1")
    assert code == 0
    said = " ".join(out.split())
    assert "one client's records were used" in said
    assert "confidence 0.95" in said
    assert any(line.startswith("Nothing was promised") for line in out.splitlines())


def test_one_sentence_says_that_rows_are_clean_and_what_noises_them(call: Any) -> None:
    code, out, _ = call("fed-cdp", *SMALL, "--view", "on_device", "--canaries", "60")
    assert code == 0
    assert sentences(out)[1] == (
        "Nothing was promised against this view: the noise is drawn on a batch's sum, so the rows in memory are clean;"
        " with example.noise = 'row' and example.each_row every row carries its own."
    )


def test_errors_are_one_line(call: Any) -> None:
    for arguments, words in (
        (["--canaries", "101"], "data.clients=101"),
        (["--confidence", "1.5"], "confidence"),
        (["--rounds", "0"], "rounds"),
        (["--view", "moon"], "--view"),
    ):
        code, out, err = call("fed-cdp", *SMALL, *arguments)
        assert code == 2
        assert words in err
        assert len(err.splitlines()) == 1
        assert not out


def test_a_broken_promise_is_said_and_ends_with_1(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    no_clip(monkeypatch)
    code, out, _ = call("fed-cdp", *SMALL, "--set", "data.clients=200", "--confidence", "0.99995")
    assert code == 1
    guessed, verdict, *_ = sentences(out)
    assert "with confidence 0.99995," in guessed
    assert verdict.startswith("BROKEN: ")
    assert "in at most 0.005 % of audits" in verdict


def test_a_method_that_leaks_its_bound_is_not_said_to_be_within_what_is_proved_and_no_more(call: Any) -> None:
    code, out, _ = call(
        "geyer", *SMALL[:4], "--seed", "1", "--unit", "client", "--view", "released", "--canaries", "20"
    )
    assert code == 3
    assert "But it is NOT private as it stands: the clipping bound is read" in " ".join(sentences(out))


EXACT = ["--set", "batch.kind=all", "--set", "local.steps=1", "--set", "example.noise=sum", "--seed", "1"]
SEEN = ["--set", "data.name=cancer", "--set", "data.records=20", "--set", "data.clients=400", *EXACT]


def test_what_could_be_seen_is_said_and_ends_with_0_if_it_is_enough_and_with_3_if_not(call: Any) -> None:
    code, out, _ = call("fed-cdp", *SEEN, "--set", "example.sigma=1.5")
    assert code == 0
    _, verdict, compared, more = sentences(out)
    assert verdict.startswith("CONSISTENT with what is proved, ε ≤ ")
    assert ": had the noise been less than 0." in verdict
    assert "the guesses would have shown it with 95 % probability" in verdict
    assert compared.startswith("Compared with what is declared: the noise has its size in ")
    assert more.startswith("more: --canaries N")
    code, out, _ = call("fed-cdp", *SEEN, "--set", "example.sigma=1.5", "--canaries", "5")
    assert code == 3
    assert sentences(out)[1].startswith("INCONCLUSIVE: nothing contradicts what is proved")
    assert "even that there is no noise at all" in sentences(out)[1]
    code, out, _ = call("fed-cdp", *SEEN, "--set", "example.sigma=15")
    assert code == 3
    assert " canaries would show noise of half its size." in sentences(out)[1]


def test_ctrl_c_ends_with_what_the_finished_canaries_show(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def impatient(self: WorkProgress, title: str, share: float) -> None:
        if title == "canaries" and share > 0.6:
            raise KeyboardInterrupt

    monkeypatch.setattr(WorkProgress, "__call__", impatient)
    code, out, err = call("fed-cdp", *SMALL, "--canaries", "80")
    assert code == 130
    assert " of 80 canaries are finished, and what follows speaks of these" in err
    assert "of 80" not in out
    assert sentences(out)[1].startswith("INCONCLUSIVE: ")


MODEL = """
from pathlib import Path
from fedveil.models.networks import mlp

def factory(input_shape, classes):
    Path("begun").touch()
    return mlp(input_shape, classes, hidden=(8,))
"""


@pytest.mark.slow
def test_an_interrupted_audit_ends_with_130(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODEL)
    command = [sys.executable, "-m", "fedveil.cli", "audit", "fed-cdp", "--set", "data.name=cancer", "--workers", "1"]
    command += ["--set", "model.name=mine:factory", "--set", "local.steps=100000"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for _ in range(1200):
            if (tmp_path / "begun").exists():
                break
            time.sleep(0.05)
        else:
            process.kill()
            pytest.fail("the audit never began")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "stopped before any canary was finished, so nothing is known" in errors
    assert errors.splitlines()[-1] == "fedveil: interrupted"
    assert "Traceback" not in errors
