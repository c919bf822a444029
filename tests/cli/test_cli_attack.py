"""`fedveil attack` as a person uses it, in a temporary directory."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ONE = ["--workers", "1"]
CANCER = ["--set", "data.name=cancer", "--victims", "3", "--iterations", "5", *ONE]


def test_attack_prints_one_json_object_and_draws(call: Any) -> None:
    code, out, err = call("attack", "fedavg", *CANCER, "--json", "--out", "stolen.png")
    assert code == 0, err
    told = json.loads(out)
    assert told["method"] == "fedavg"
    assert told["success_rate"] == 1
    assert told["rmse"] < 0.01
    assert len(told["per_victim"]) == 3
    assert Path("stolen.png").stat().st_size > 1000


@pytest.mark.parametrize("view", ["on_device", "server"])
def test_attack_says_in_words_what_fed_cdp_hides(view: str, call: Any) -> None:
    code, out, err = call("attack", "fed-cdp", "--view", view, "--set", "example.each_row=true", *CANCER)
    assert code == 0, err
    assert "success         0%" in out
    assert "a constant guess" in out


def test_attack_says_in_one_line_that_rows_are_clean_and_what_noises_them(call: Any) -> None:
    code, out, err = call("attack", "fed-cdp", *CANCER)
    assert code == 0, err
    assert "success         100%" in out
    assert err.splitlines()[0] == (
        "on_device: the noise is drawn on a batch's sum, so the rows in memory are clean; with example.noise = 'row'"
        " and example.each_row every row carries its own"
    )


def test_a_finished_run_is_attacked(call: Any) -> None:
    training = ["--set", "data.name=cancer", "--set", "local.steps=3", "--rounds", "1", "--workers", "1"]
    code, _, err = call("run", "fedavg", *training, "--out", "r")
    assert code == 0, err
    code, out, err = call("attack", "r", "--view", "client", "--victims", "2", "--iterations", "2", "--json", *ONE)
    assert code == 0, err
    assert json.loads(out)["facts"]["records_per_victim"] == 12


def test_what_can_not_be_attacked_is_one_line_and_exit_code_2(call: Any) -> None:
    code, _, err = call("attack", "fedavg", "--set", "data.name=cancer", "--victims", "101")
    assert code == 2
    assert err == "fedveil: --victims: there are 100 clients, not 101; see data.clients\n"


@pytest.mark.slow
def test_ctrl_c_ends_an_attack_with_130(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedveil.cli", "attack", "fedavg", "--set", "data.name=cancer", "--view", "client"]
    command += ["--attack", "inverting-gradients", "--iterations", "100000", "--set", "batch.size=8"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "attacking 40 victims" in process.stderr.readline()
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
