"""`fedveil audit`, used as a person uses it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

SMALL = ["--set", "data.name=cancer", "--set", "data.records=20", "--set", "local.steps=5", "--seed", "1"]


def fedveil(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fedveil.cli", "audit", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def test_json_is_one_object_with_the_bound_beside_what_is_verified(tmp_path: Path) -> None:
    done = fedveil("fed-cdp", *SMALL, "--view", "on_device", "--canaries", "60", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    asked = {"method": "fed-cdp", "unit": "record", "view": "on_device", "canaries": 60, "confidence": 0.95}
    assert told | asked == told
    assert told["delta"] == 1e-5
    assert told["holds"]
    assert told["epsilon_lower"] <= told["epsilon_verified"]
    assert told["details"]["guesses"]
    assert not list(tmp_path.iterdir())  # an audit leaves nothing behind


def test_the_words_say_that_nothing_was_promised(tmp_path: Path) -> None:
    done = fedveil("fedavg", *SMALL, "--unit", "client", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert "one client took part" in first
    assert "confidence 0.95" in first
    assert second.startswith("Nothing was promised")


def test_errors_are_one_line(tmp_path: Path) -> None:
    for arguments, words in (
        (["--canaries", "101"], "data.clients=101"),
        (["--confidence", "1.5"], "confidence"),
        (["--rounds", "0"], "rounds"),
        (["--view", "moon"], "--view"),
    ):
        done = fedveil("fed-cdp", *SMALL, *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert not done.stdout


def test_an_interrupted_audit_ends_with_130(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedveil.cli", "audit", "fed-cdp", "--set", "data.name=cancer", "--rounds", "3"]
    command += ["--set", "local.steps=3000", "--workers", "2"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(8)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip() == "fedveil: interrupted"
