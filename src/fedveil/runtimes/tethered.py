"""`python -m fedveil.runtimes.tethered MODULE …`: a module that ends when the process that started it is gone.

Its standard input is a pipe that nobody writes to. Its end is the end of the parent, however that ended.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def _follow() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_follow, daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
