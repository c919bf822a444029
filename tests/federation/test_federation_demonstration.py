"""The demonstration, interrupted in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from fedveil.core.errors import FedveilError
from fedveil.federation.demonstration import demonstrate
from fedveil.report.terminal.run_progress import SilentReporter


def processes_of(folder: Path) -> list[str]:
    """Commands of this machine that name the folder."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [command for command in commands if str(folder) in command]


@pytest.mark.slow
@pytest.mark.skipif("FEDVEIL_DATA" not in os.environ, reason="needs the files of the four hospitals")
def test_an_interrupt_in_the_middle_leaves_no_process_behind(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    command = [sys.executable, "-m", "fedveil.cli", "federation", "demo", "--out", str(folder)]
    demo = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 200
    while not (folder / "coordinator" / "run" / "events.jsonl").exists():
        assert demo.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    assert len(processes_of(folder)) > 5  # a control: five nodes and four sites besides the demonstration itself
    demo.send_signal(signal.SIGINT)
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert errors.strip().endswith("fedveil: interrupted")
    end = time.monotonic() + 20
    while processes_of(folder) and time.monotonic() < end:
        time.sleep(0.1)
    assert processes_of(folder) == []


def test_without_the_hospitals_files_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path / "none"))
    with pytest.raises(FedveilError, match="fedveil data fetch heart"):
        demonstrate(tmp_path / "demo", SilentReporter(), lambda line: None)
    assert not (tmp_path / "demo").exists()
