"""Seconds of commands from the shell, most of which is loading code: medians, processor time and wall-clock time.

`python benchmarks/startup.py [OTHER]` prints them and writes benchmarks/results/startup.json. OTHER is the `fedveil` of
another installation; both then run in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COMMANDS = {
    "--version": ("--version",),
    "--help": ("--help",),
    "methods": ("methods",),
    "account fed-cdp": ("account", "fed-cdp"),
    "account fed-cdp-allocated": ("account", "fed-cdp-allocated"),
    "account private-records": ("account", "private-records"),
    "calibrate fed-cdp": ("calibrate", "fed-cdp", "--epsilon", "1"),
}
RUN = ("run", "fed-cdp", "--rounds", "1", "--set", "data.name=cancer", "--set", "data.clients=10")


def certificate(program: str, folder: Path) -> tuple[str, ...]:
    """The arguments of `verify` for the certificate of a small run, on a table that is there on every machine."""
    made = str(folder / "run")
    for line in (
        (*RUN, "--set", "local.steps=1", "--set", "batch.size=5", "--out", made),
        ("key", "--out", str(folder / "key")),
        ("certify", made, "--key", str(folder / "key"), "--signatory", "nobody"),
    ):
        subprocess.run([program, *line], check=True, capture_output=True)
    return ("verify", f"{made}/certificate.json")


def timed(program: str, arguments: tuple[str, ...]) -> tuple[float, float]:
    """(processor, wall-clock) seconds."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([program, *arguments], check=True, capture_output=True)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def measured(programs: dict[str, str], arguments: tuple[str, ...], repeats: int) -> dict[str, Any]:
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    for _ in range(repeats):
        for name, program in programs.items():
            times[name].append(timed(program, arguments))
    return {
        name: {
            kind: {"median": statistics.median(values), "least": min(values), "most": max(values)}
            for kind, values in zip(("processor", "wall"), zip(*pairs, strict=True), strict=True)
        }
        for name, pairs in times.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("other", nargs="?", help="the `fedveil` of another installation")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=(*COMMANDS, "verify"), help="these commands alone")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "startup.json")
    given = parser.parse_args()
    programs = {"here": str(Path(sys.executable).with_name("fedveil"))}
    if given.other:
        programs["other"] = given.other
    about = {"machine": f"{os.cpu_count()} cores ({platform.machine()})", "load": round(os.getloadavg()[0], 1)}
    found: dict[str, Any] = {**about, "repeats": given.repeats, "seconds": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name in given.only or (*COMMANDS, "verify"):
            arguments = COMMANDS.get(name) or certificate(programs["here"], Path(folder))
            found["seconds"][name] = measured(programs, arguments, given.repeats)
            parts = [
                f"{who} {times['processor']['median']:.2f} s of a core, {times['wall']['median']:.2f} s"
                for who, times in found["seconds"][name].items()
            ]
            print(f"{name}: {'; '.join(parts)}", flush=True)
    given.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
