"""Peak memory of a whole run, over all its processes: one round of 1,000 of 100,000 MNIST clients (500 records each).

`python benchmarks/memory.py [OTHER]` prints it and writes benchmarks/results/memory.json. OTHER is the `fedveil` of
another installation. "proportional" counts a page that n processes share as 1/n for each of them (PSS); "resident"
counts it n times.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
EVERY = 0.2
"""Seconds between two looks: `smaps_rollup` walks all pages, so that looking all the time would take a core."""


def tree(pid: int) -> list[int]:
    """A process and all that it started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(below for child in children for below in tree(int(child)))]


def kilobytes(pid: int) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}


def peak(program: str, clients: int, cohort: int, steps: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "data.clients": clients,
            "data.records": 500,
            "cohort.size": cohort,
            "local.steps": steps,
            "stop.rounds": 1,
        }
        changes = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        process = subprocess.Popen(
            [program, "run", "fed-cdp", *changes, "--out", f"{folder}/run"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        most = {"Pss": 0, "Rss": 0}
        begun = time.perf_counter()
        while process.poll() is None:
            seen = [kilobytes(pid) for pid in tree(process.pid)]
            most = {kind: max(before, sum(one.get(kind, 0) for one in seen)) for kind, before in most.items()}
            time.sleep(EVERY)
    if process.returncode:
        raise SystemExit(f"the run failed ({process.returncode})")
    return {
        "proportional_megabytes": round(most["Pss"] / 1024),
        "resident_megabytes": round(most["Rss"] / 1024),
        "seconds": round(time.perf_counter() - begun, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("other", nargs="?", help="the `fedveil` of another installation")
    parser.add_argument("--clients", type=int, default=100_000)
    parser.add_argument("--cohort", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "memory.json")
    given = parser.parse_args()
    programs = {"here": str(Path(sys.executable).with_name("fedveil"))} | (
        {"other": given.other} if given.other else {}
    )
    found: dict[str, Any] = {"clients": given.clients, "cohort": given.cohort, "workers": os.cpu_count(), "peak": {}}
    for name, program in programs.items():
        found["peak"][name] = peak(program, given.clients, given.cohort, given.steps)
        print(name, found["peak"][name], flush=True)
    given.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
