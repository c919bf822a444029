"""`fedveil attack` as a person uses it: through processes, in a temporary directory."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CANCER = ["--set", "data.name=cancer", "--victims", "3", "--iterations", "5"]


def fedveil(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fedveil.cli", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)


def test_attack_prints_one_json_object_and_draws(tmp_path: Path) -> None:
    done = fedveil("attack", "fedavg", *CANCER, "--json", "--out", "stolen.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["method"] == "fedavg"
    assert told["success_rate"] == 1
    assert told["rmse"] < 0.01
    assert len(told["per_victim"]) == 3
    assert (tmp_path / "stolen.png").stat().st_size > 1000


@pytest.mark.parametrize("view", ["on_device", "server"])
def test_attack_says_in_words_what_fed_cdp_hides(view: str, tmp_path: Path) -> None:
    done = fedveil("attack", "fed-cdp", "--view", view, *CANCER, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "success         0%" in done.stdout
    assert "a constant guess" in done.stdout


def test_a_finished_run_is_attacked(tmp_path: Path) -> None:
    trained = fedveil(
        "run",
        "fedavg",
        "--set",
        "data.name=cancer",
        "--set",
        "local.steps=3",
        "--rounds",
        "1",
        "--out",
        "r",
        cwd=tmp_path,
    )
    assert trained.returncode == 0, trained.stderr
    done = fedveil("attack", "r", "--view", "client", "--victims", "2", "--iterations", "2", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["facts"]["records_per_victim"] == 12


def test_what_can_not_be_attacked_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = fedveil("attack", "fedavg", "--set", "data.name=cancer", "--victims", "101", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "fedveil: --victims: there are 100 clients, not 101; see data.clients\n"


def test_ctrl_c_ends_an_attack_with_130(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedveil.cli", "attack", "fedavg", "--set", "data.name=cancer", "--view", "client"]
    command += ["--attack", "inverting-gradients", "--iterations", "100000", "--set", "batch.size=8"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "attacking 100 victims" in process.stderr.readline()
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
