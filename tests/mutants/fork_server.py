"""A process with all that fedveil imports from others loaded, which forks for every mutant that it is asked about.

A fork imports fedveil anew, from the copy that it is given. That takes a quarter of a second instead of four.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

MOST_SECONDS = 300


def main() -> None:
    base = sys.argv[1]
    sys.path.insert(0, base)
    importlib.import_module("fedveil.runs.run")
    for name in [name for name in sys.modules if name.partition(".")[0] == "fedveil"]:
        del sys.modules[name]
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps(in_a_fork(**question)), flush=True)


def in_a_fork(source: str, function: str, arguments: list[Any]) -> dict[str, Any]:
    """What a function of `scenes.py` returns with the fedveil in `source`, or how it crashed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(2, 1)  # a stray print must not end up among the answers
        try:
            answer = {"result": asked(source, function, arguments)}
        except BaseException:
            answer = {"crash": traceback.format_exc()}
        with os.fdopen(writing, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        if not select.select([pipe], [], [], MOST_SECONDS)[0]:
            os.kill(child, signal.SIGKILL)
        text = pipe.read()
    os.waitpid(child, 0)
    answer = json.loads(text) if text else {"crash": f"no answer within {MOST_SECONDS} seconds"}
    return dict(answer)


def asked(source: str, function: str, arguments: list[Any]) -> Any:
    sys.path[0] = source
    import torch

    torch.set_num_threads(1)
    fedveil = importlib.import_module("fedveil")
    assert fedveil.__file__ is not None
    assert Path(fedveil.__file__).is_relative_to(source), fedveil.__file__
    sys.path.insert(1, str(Path(__file__).parent))
    return getattr(importlib.import_module("scenes"), function)(*arguments)


if __name__ == "__main__":
    main()
