"""The process that has the shim below it. Everything is imported once, and every case is a fork of it.

It reads what to do as JSON from its input, `{"scratch": DIRECTORY, "most": {FAMILY: CASES}, "planted": BUG or ""}`,
and prints one line of JSON for every case. `struck` starts it, with the shim in LD_PRELOAD.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from shim_control import compile_shim


def struck(scratch: Path, most: Mapping[str, int], planted: str = "") -> Iterator[dict[str, Any]]:
    """Strike so many times at each of these families; what became of every case, as it comes."""
    scratch.mkdir(parents=True, exist_ok=True)
    settings = {"LD_PRELOAD": str(compile_shim(scratch)), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    asked = {"scratch": str(scratch / "disks"), "most": dict(most), "planted": planted}
    process = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | settings,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        try:
            process.stdin.write(json.dumps(asked))
            process.stdin.close()
            yield from map(json.loads, process.stdout)
        except GeneratorExit:  # enough was seen
            process.terminate()
            raise
    if process.returncode != 0:
        raise AssertionError(f"the driver ended with {process.returncode}")


def _strike(scratch: Path, most: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    from cases import chosen
    from families import FAMILIES
    from trials import Trials

    for number, (name, count) in enumerate(most.items()):
        place = scratch / f"family-{number}"
        trials = Trials(name, FAMILIES[name], place)
        possible = trials.cases()
        for case in chosen(possible, count):
            begun = time.perf_counter()
            complaints = trials.strike(case)
            yield {
                "case": str(case), "family": name, "stage": case.stage, "kind": case.kind.name.lower(),
                "manner": case.manner, "complaints": complaints, "seconds": time.perf_counter() - begun,
                "possible": len(possible),
            }  # fmt: skip
        shutil.rmtree(place)


def main() -> None:
    import torch
    from planted_bugs import PLANTED

    torch.set_num_threads(1)
    asked = json.load(sys.stdin)
    if asked["planted"]:
        PLANTED[asked["planted"]]()
    for result in _strike(Path(asked["scratch"]), asked["most"]):
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
