"""Ctrl-C while modules are being imported: it waits until they are there.

An interrupt in the middle of an import ends in a traceback or, inside a library's C++ code, in an abort of the process.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType

AGAIN_SECONDS = 0.05
"""After so long an interrupt that had to wait is tried again."""


def defer_while_importing() -> None:
    """Let Ctrl-C wait for imports from now on; a handler of somebody else's is left alone."""
    ours = threading.current_thread() is threading.main_thread()
    if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if not _importing(frame):
        raise KeyboardInterrupt
    again = threading.Timer(AGAIN_SECONDS, signal.raise_signal, (signal.SIGINT,))
    again.daemon = True  # a process that ends in the meantime has nothing left to interrupt
    again.start()


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
