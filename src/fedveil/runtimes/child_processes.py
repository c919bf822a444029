"""Processes of one federation on this machine: started by name, with a log each, and ended by their ids."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from fedveil.core.errors import FedveilError


class ChildProcesses:
    """Python modules that run beside this process, and never longer than it."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running.values():
            process.kill()
        for name in list(self._running):
            self.kill(name)

    def start(self, name: str, module: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
        """Start a module with its arguments; the process's id. What it prints goes to the end of `NAME.log`."""
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "fedveil.runtimes.tethered", *module],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # Ctrl-C is for this process, which ends the others
            )
        return self._running[name].pid

    def kill(self, name: str) -> None:
        """End it at once, without a goodbye."""
        process = self._running.pop(name)
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def process_id(self, name: str) -> int:
        return self._running[name].pid

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def check(self) -> None:
        """Raise if one of them has ended by itself, with its last line."""
        for name, process in self._running.items():
            if process.poll() is not None:
                lines = self.log(name).read_text(errors="replace").splitlines()
                raise FedveilError(f"{name} ended: {lines[-1] if lines else 'it printed nothing'}")

    def wait_for_line(self, name: str, text: str, seconds: float) -> None:
        """Until a line of its log has this text."""
        end = time.monotonic() + seconds
        while text not in self.log(name).read_text(errors="replace"):
            self.check()
            if time.monotonic() > end:
                raise FedveilError(f"{name} did not say {text!r} within {seconds:.0f} s; see {self.log(name)}")
            time.sleep(0.1)


def free_port() -> int:
    """A port of this machine that nobody listens to now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
