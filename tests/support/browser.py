"""Chromium without a window, spoken to over pipes in its DevTools protocol: what a page asks for and looks like."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS = 60.0

AS_3_AND_4 = """
import fcntl, os, sys
commands, answers = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(answers, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads commands from the file descriptor 3 and answers on 4."""


def chromium() -> str | None:
    """Where it is, if it is here."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


@dataclass
class Browser:
    """One tab. `requests` are the addresses that were asked for, `complaints` whatever came to the console."""

    commands: int  # file descriptors
    answers: int
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    _count: int = 0
    _session: str | None = None
    _buffer: bytes = b""
    _loaded: int = 0

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come in between are noted."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        limit = time.monotonic() + SECONDS
        while True:
            answer = self._next(limit)
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def open_tab(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def visit(self, page: Path, *, width: int, height: int = 800, dark: bool = False) -> None:
        """Load a file as a screen of that size shows it."""
        mobile = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        before = self._loaded
        self.call("Page.navigate", url=page.resolve().as_uri())
        self.wait_for_load(before)

    def wait_for_load(self, before: int | None = None) -> None:
        """Until a page is there once more than before, or than now: of its own accord, if it is told so."""
        before = self._loaded if before is None else before
        limit = time.monotonic() + SECONDS
        while self._loaded == before:
            self._next(limit)

    def evaluate(self, expression: str) -> Any:
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """What it looks like, as a PNG."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def _next(self, limit: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = limit - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                raise TimeoutError("chromium did not answer in time")
            read = os.read(self.answers, 1 << 20)
            if not read:
                raise EOFError("chromium has ended")
            self._buffer += read
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        told, what = message.get("params", {}), message.get("method")
        if what == "Page.loadEventFired":
            self._loaded += 1
        elif what == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif what == "Runtime.consoleAPICalled":
            self.complaints.append(str(told.get("args")))
        elif what == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"].get("text")))
        elif what == "Log.entryAdded":
            self.complaints.append(str(told["entry"].get("text")))


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A fresh Chromium with an empty profile; it ends with the context."""
    program = chromium()
    assert program is not None
    read_commands, write_commands = os.pipe()
    read_answers, write_answers = os.pipe()
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    arguments += ["--disable-dev-shm-usage", "--disable-extensions", "--disable-component-update", "--hide-scrollbars"]
    arguments += [f"--user-data-dir={profile}", "--remote-debugging-pipe"]
    process = subprocess.Popen(
        [sys.executable, "-c", AS_3_AND_4, str(read_commands), str(write_answers), program, *arguments],
        pass_fds=(read_commands, write_answers),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(read_commands)
    os.close(write_answers)
    found = Browser(write_commands, read_answers)
    try:
        found.open_tab()
        yield found
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=20)
        os.close(write_commands)
        os.close(read_answers)
