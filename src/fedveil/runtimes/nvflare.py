"""Questions and answers over NVFlare, which runs in a process of its own beside this one.

Whatever knows a plan, a model or a record stays in this process; NVFlare's has bytes to carry. It ends when this one
does. NVFlare's jobs are not used: a site would poll for tasks every two seconds, load PyTorch in a further process, and
not come back into a job after a restart.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedveil.core.errors import FedveilError
from fedveil.core.printable_text import printable
from fedveil.runtimes.frames import FrameLink
from fedveil.runtimes.starting_checks import kit_problem, wait_for_port
from fedveil.runtimes.startup_kit import LARGEST_MESSAGE
from fedveil.runtimes.transport import Answer

START_SECONDS = 120.0
_GRACE = 2.0
"""Seconds beyond a deadline for which NVFlare's process is waited for, before it is taken to be stuck."""
_LONGEST_PAUSE = 30.0
_SMALL = {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""Settings of NVFlare's process. It computes nothing; with an arena per thread, its memory grows by a third."""


def require_nvflare() -> None:
    """Say what to install, before anything is begun."""
    if find_spec("nvflare") is None:
        raise FedveilError("a federation needs NVFlare: pip install 'fedveil[federation]'")


class _Node:
    """The process that runs NVFlare from a kit."""

    def __init__(self, kit: Path) -> None:
        require_nvflare()
        self.kit = kit.resolve()
        self.was_ready = False
        self.link, other = FrameLink.pair(LARGEST_MESSAGE)
        environment = {**os.environ, **_SMALL, **FrameLink.handed_down(other)}
        with (self.kit / "output.txt").open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fedveil.runtimes.nvflare_node", str(self.kit)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[other.fileno()],
                env=environment,
                start_new_session=True,  # Ctrl-C is for this process, which ends the other one
            )
        other.close()

    def end(self) -> None:
        """NVFlare takes several seconds to say goodbye; nothing that matters is lost when it does not."""
        self.link.close()
        self.process.kill()
        self.process.wait()

    def last_words(self) -> str:
        """The last error that it wrote, for a person to read."""
        lines = [line for name in ("log.txt", "output.txt") for line in _tail(self.kit / name)]
        errors = [line for line in lines if " ERROR " in line or "Error" in line]
        return printable((errors or lines or ["it wrote nothing"])[-1])


class FlareTransport:
    """The coordinator's end: listens for the sites of a kit, and asks them."""

    def __init__(self, kit: Path, on_change: Callable[[str, bool], None] = lambda site, here: None) -> None:
        require_nvflare()
        if (problem := kit_problem(kit)) is not None:
            raise FedveilError(problem)
        wait_for_port(kit)
        self._node = _Node(kit)
        self._on_change = on_change
        self._present: set[str] = set()
        self._change = threading.Condition()
        self._ready = self._gone = False
        self._asks = 0
        self._open: dict[int, queue.SimpleQueue[tuple[str, bytes | None]]] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        with self._change:
            self._change.wait_for(lambda: self._ready or self._gone, timeout=START_SECONDS)
        if not self._ready:
            self.close()
            raise FedveilError(f"NVFlare did not start in {self._node.kit}: {self._node.last_words()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def process_id(self) -> int:
        """Of NVFlare's process."""
        return self._node.process.pid

    def present(self) -> frozenset[str]:
        """The sites that are connected now."""
        with self._change:
            return frozenset(self._present)

    def wait_for(self, sites: frozenset[str], seconds: float) -> frozenset[str]:
        """Wait until these sites are connected; those that are still missing after as many seconds."""
        with self._change:
            self._change.wait_for(lambda: self._gone or sites <= self._present, timeout=seconds)
            self._check()
            return sites - self._present

    def ask(self, questions: dict[str, bytes], deadline: float) -> Iterator[tuple[str, bytes]]:
        """See `Transport`. A site that is away is asked when it is back; one that lost an answer sends it again."""
        for site, question in questions.items():
            if len(question) > LARGEST_MESSAGE:
                raise FedveilError(f"the question to {site} has {len(question)} bytes, more than {LARGEST_MESSAGE}")
        self._asks += 1
        ask, end = self._asks, time.monotonic() + deadline
        answers = self._open[ask] = queue.SimpleQueue()
        try:
            for site, question in questions.items():
                self._send({"kind": "ask", "ask": ask, "site": site, "seconds": end - time.monotonic()}, question)
            waiting = set(questions)
            while waiting and (left := end + _GRACE - time.monotonic()) > 0:
                try:
                    site, answer = answers.get(timeout=min(left, 1.0))
                except queue.Empty:
                    self._check()
                    continue
                waiting.discard(site)
                if answer is not None:
                    yield site, answer
        finally:
            del self._open[ask]
            if not self._gone:
                self._send({"kind": "cancel", "ask": ask})

    def close(self) -> None:
        """End NVFlare's process."""
        self._gone = True
        self._node.end()
        self._reader.join(timeout=5)

    def _send(self, header: dict[str, Any], body: bytes = b"") -> None:
        try:
            self._node.link.send(header, body)
        except OSError:
            self._gone = True
            self._check()

    def _check(self) -> None:
        if self._gone:
            raise FedveilError(f"NVFlare ended in {self._node.kit}: {self._node.last_words()}")

    def _read(self) -> None:
        while True:
            try:
                header, body = self._node.link.receive()
            except EOFError:
                with self._change:
                    self._gone = True
                    self._change.notify_all()
                return
            kind = header["kind"]
            if kind in ("answer", "missing"):
                if (answers := self._open.get(header["ask"])) is not None:
                    answers.put((header["site"], body if kind == "answer" else None))
                continue
            with self._change:
                if kind == "ready":
                    self._ready = True
                elif kind == "joined":
                    self._present.add(header["site"])
                elif kind == "left":
                    self._present.discard(header["site"])
                self._change.notify_all()
            if kind != "ready":
                self._on_change(header["site"], kind == "joined")


def serve_site(kit: Path, answer: Answer, say: Callable[[str], None] = lambda line: None) -> None:
    """Answer the coordinator's questions, one at a time, until interrupted. Whatever ends NVFlare, it is begun again.

    `say` gets a line when something changes. An answer that fails is not sent, nor is why; `answer` is asked again.
    """
    if (problem := kit_problem(kit)) is not None:
        raise FedveilError(problem)
    pause = 1.0
    while True:
        reason = kit_problem(kit)  # it may run out, or a clock may be set, while the site serves
        if reason is None:
            node = _Node(kit)
            try:
                if node.link.wait(START_SECONDS):
                    reason = _serve(node, answer, say)
                else:  # NVFlare's client hangs for ever where it can't make use of its certificate
                    reason = "NVFlare did not begin; is the certificate this federation's?"
            finally:
                node.end()
            if node.was_ready:
                pause = 1.0
        say(f"not connected: {reason}; trying again in {pause:.0f} s")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _serve(node: _Node, answer: Answer, say: Callable[[str], None]) -> str:
    """Answer until NVFlare's process ends; why it did."""
    refusal = ""
    try:
        while True:
            header, body = node.link.receive()
            if header["kind"] == "ready":
                node.was_ready = True
                say("connected")
            elif header["kind"] == "refused":
                refusal = header["reason"]
            elif header["kind"] == "question":
                _answer(node.link, header["key"], body, answer, say)
    except (EOFError, BrokenPipeError):
        node.process.wait()
    return refusal or node.last_words()


def _answer(link: FrameLink, key: str, question: bytes, answer: Answer, say: Callable[[str], None]) -> None:
    try:
        reply = answer(question)
        if len(reply) > LARGEST_MESSAGE:
            raise FedveilError(f"an answer of {len(reply)} bytes is more than {LARGEST_MESSAGE}")
    except Exception as error:  # the site goes on: a full disk may be emptied, and the question comes again
        say(f"a question could not be answered: {type(error).__name__}: {error}")
        link.send({"kind": "failed", "key": key})
    else:
        link.send({"kind": "answer", "key": key}, reply)


def _tail(path: Path, size: int = 20_000) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            return [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        return []
