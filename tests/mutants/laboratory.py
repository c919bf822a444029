"""Where mutants are examined: each as a patched copy of the sources, in a process of its own."""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mutant import SOURCE, Patch, copy_source

HERE = Path(__file__).parent


class Crashed(Exception):
    """The mutant neither worked nor was stopped: the patch is wrong."""


class Laboratory:
    """Copies sources, patches them and lets the fork server run them; use it as a context manager."""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="fedveil-mutants-")
        self._base = copy_source(Path(self._folder.name, "base"))
        compileall.compile_dir(self._base, quiet=2)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self._server = subprocess.Popen(
            [sys.executable, str(HERE / "fork_server.py"), str(self._base)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.kill()
        self._server.communicate()
        self._folder.cleanup()

    def asked(self, patches: Iterable[Patch], function: str, *arguments: Any) -> Any:
        """What a function of `scenes.py` returns with patched sources."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with tempfile.TemporaryDirectory(dir=self._folder.name) as folder:
            source = copy_source(Path(folder), patches, self._base / SOURCE.name)
            question = {"source": str(source), "function": function, "arguments": arguments}
            self._server.stdin.write(json.dumps(question) + "\n")
            self._server.stdin.flush()
            answer = json.loads(self._server.stdout.readline())
        if "crash" in answer:
            raise Crashed(answer["crash"])
        return answer["result"]

    def failing_test(self, patches: Iterable[Patch], *tests: str) -> bool:
        """Whether one of the tests fails with patched sources."""
        with tempfile.TemporaryDirectory(dir=self._folder.name) as folder:
            source = copy_source(Path(folder), patches, self._base / SOURCE.name)
            command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "", "-p", "no:cacheprovider"]
            environment = {**os.environ, "PYTHONPATH": str(source)}
            done = subprocess.run(
                [*command, *tests], cwd=HERE.parents[1], env=environment, capture_output=True, check=False
            )
        if done.returncode not in (0, 1):
            raise Crashed(done.stdout.decode() + done.stderr.decode())
        return done.returncode == 1
