from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedveil.core.errors import FedveilError
from fedveil.runtimes.child_processes import ChildProcesses

SLEEPER = "import time; print('here', flush=True); time.sleep(600)"
PARENT = """
import sys, time
from pathlib import Path
from fedveil.runtimes.child_processes import ChildProcesses
with ChildProcesses(Path(sys.argv[1])) as processes:
    print(processes.start("one", ["sleeper"]), flush=True)
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    (tmp_path / "fails.py").write_text("raise SystemExit('no records')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return tmp_path


def lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(process: int) -> bool:
    end = time.monotonic() + 30
    while lives(process) and time.monotonic() < end:
        time.sleep(0.05)
    return not lives(process)


def test_processes_end_with_the_block_that_started_them(folder: Path) -> None:
    with ChildProcesses(folder) as processes:
        ids = [processes.start(name, ["sleeper"]) for name in ("one", "two")]
        processes.wait_for_line("one", "here", 60)
        processes.kill("one")
        assert ends(ids[0])
        assert lives(ids[1])
        assert processes.process_id("two") == ids[1]
    assert ends(ids[1])


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_processes_end_with_the_process_that_started_them(folder: Path, how: signal.Signals) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(folder)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent, parent.stdout:
        child = int(parent.stdout.readline())
        assert lives(child)
        parent.send_signal(how)
        parent.wait()
    assert ends(child)


def test_one_that_ends_by_itself_is_an_error_with_its_last_line(folder: Path) -> None:
    with ChildProcesses(folder) as processes:
        processes.start("one", ["fails"])
        with pytest.raises(FedveilError, match="one ended: no records"):
            processes.wait_for_line("one", "here", 60)
    with ChildProcesses(folder) as processes:
        processes.start("two", ["sleeper"])
        with pytest.raises(FedveilError, match="two did not say 'there' within 1 s"):
            processes.wait_for_line("two", "there", 1)
