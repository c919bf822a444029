"""A command in a process of its own, forked from one that has everything imported, with a fault below it.

What is sent to clients is noted beside the disk, at the very moment, by nobody who knows of the ledger.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shim_control import NO_FAULT, Fault, arm, disarm

from fedveil.cli import cli
from fedveil.core.digests import text_digest
from fedveil.core.errors import FedveilError
from fedveil.core.types import Taps
from fedveil.engine.client import Broadcast, Upload
from fedveil.engine.job import Job
from fedveil.engine.loop import MakeRuntime, Runtime
from fedveil.engine.personal_models import Starts
from fedveil.method import Method
from fedveil.runs import run as run_module
from fedveil.runtimes.local import on_this_machine

LONGEST_SECONDS = 60


@dataclass(frozen=True)
class Ended:
    """How a process ended: "done", "error" (one that fedveil explains), "killed", or a "failure" that it does not."""

    how: str
    text: str = ""


@dataclass(frozen=True)
class Sent:
    """A round that clients were asked to work on."""

    method: str
    round: int
    cohort: tuple[int, ...]


def name_of(method: Method) -> str:
    return text_digest(repr(method))


def read_sent(path: Path) -> list[Sent]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [Sent(line["method"], line["round"], tuple(line["cohort"])) for line in map(json.loads, lines)]


class _Noting:
    """A runtime that notes what it is asked to send, before it does."""

    def __init__(self, runtime: Runtime, method: Method, notes: Path) -> None:
        self._runtime, self._method, self._notes = runtime, name_of(method), notes
        self.evaluate = runtime.evaluate

    def train(
        self, broadcast: Broadcast, cohort: Sequence[int], taps: Taps, starts: Starts | None = None
    ) -> Iterator[Upload]:
        with self._notes.open("a") as notes:
            sent = {"method": self._method, "round": broadcast.round, "cohort": [int(client) for client in cohort]}
            notes.write(json.dumps(sent) + "\n")
        yield from self._runtime.train(broadcast, cohort, taps, starts)


def _noting(notes: Path) -> Any:
    def make(workers: int | None = None, chunk: int | None = None) -> MakeRuntime:
        @contextmanager
        def noted(job: Job) -> Iterator[Runtime]:
            with on_this_machine(workers, chunk)(job) as runtime:
                yield _Noting(runtime, job.method, notes)

        return noted

    return make


def in_a_child(command: Sequence[str], disk: Path, beside: Path, fault: Fault = NO_FAULT) -> Ended:
    """Run a command; its calls are logged in `beside/calls`, what it sent in `beside/sent`, its output is kept."""
    (beside / "calls").unlink(missing_ok=True)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        ended = _work(command, disk, beside, fault)
        os.write(writer, json.dumps([ended.how, ended.text]).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return Ended("killed") if number == signal.SIGKILL else Ended("failure", signal.Signals(number).name)
    if not said:
        return Ended("failure", f"exit code {os.WEXITSTATUS(status)}")
    printed = (beside / "printed").read_text(errors="replace")
    if "Traceback" in printed:
        return Ended("failure", printed)
    return Ended(*json.loads(said))


def _work(command: Sequence[str], disk: Path, beside: Path, fault: Fault) -> Ended:
    gc.disable()
    signal.alarm(LONGEST_SECONDS)
    output = os.open(beside / "printed", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    run_module.on_this_machine = _noting(beside / "sent")
    arm(disk, beside / "calls", fault)
    try:
        cli(list(command), standalone_mode=False)
        ended = Ended("done")
    except FedveilError as error:
        ended = Ended("error", str(error))
    except BaseException:
        ended = Ended("failure", traceback.format_exc())
    disarm()
    sys.stdout.flush()
    sys.stderr.flush()
    return ended
