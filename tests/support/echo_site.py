"""A site that answers with what it was asked, as a process: `python -m echo_site KIT`, and what a question makes it do.

`silent…` is never answered, `fails…` fails the first time; each answer says which process gave it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from fedveil.runtimes.nvflare import serve_site

SEEN: set[bytes] = set()


def echo(question: bytes) -> bytes:
    if question.startswith(b"silent"):
        time.sleep(3600)
    if question.startswith(b"fails") and question not in SEEN:
        SEEN.add(question)
        raise OSError("no space left, and a record: 42")
    if question.startswith(b"process"):
        return str(os.getpid()).encode()
    return b"echo " + question


if __name__ == "__main__":
    serve_site(Path(sys.argv[1]), echo, lambda line: print(line, flush=True))
