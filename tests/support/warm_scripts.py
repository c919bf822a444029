"""Scripts in processes of their own that begin with PyTorch imported: importing it takes longer than most of them.

A server without threads imports it once and forks for every script. What a script prints, its exit code and its
arguments are those of `python script.py`; only its imports are there already.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["torch", "sklearn", "fedveil.studies.compare", "fedveil.studies.report"])
TIMEOUT = 600


def run_script(words: list[str], *, cwd: Path, before: Callable[[], None]) -> CompletedProcess[str]:
    """Run `python words…` in a directory; `before` is called in the new process."""
    with tempfile.TemporaryDirectory() as scratch:
        printed, errors = (Path(scratch) / name for name in ("out", "err"))
        process = _SERVER.Process(target=_script, args=(words, cwd, before, printed, errors))
        process.start()
        process.join(TIMEOUT)
        if process.exitcode is None:
            process.kill()
            process.join()
        return CompletedProcess(words, process.exitcode or 0, printed.read_text(), errors.read_text())


def _script(words: list[str], cwd: Path, before: Callable[[], None], printed: Path, errors: Path) -> None:
    for stream, path in ((1, printed), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), stream)
    before()
    os.chdir(cwd)
    sys.argv = words
    sys.path.insert(0, str(Path(words[0]).resolve().parent))
    runpy.run_path(words[0], run_name="__main__")
