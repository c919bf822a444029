"""The plain task of the first workload in pfl and in Flower's simulation, next to fedveil, in turns.

Each gets an environment of its own under a cache folder (`--environments`), made at the first run; torch is the version
of `constraints.txt`. A simulator that can't be installed or run is skipped, and the results say why. pfl runs one
single-threaded process per core, Flower its own workers on all cores. Results go to benchmarks/results/simulators.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs

from fedveil.runtimes.local import LocalRuntime
from steps import CORES, ours, spread
from workloads import WORKLOADS

HERE = Path(__file__).parent
PACKAGES = {"pfl": ["pfl==0.4.*"], "flower": ["flwr[simulation]==1.41.*"]}
INSTALLING, RUNNING = 600, 240
"""Seconds after which it is given up."""


class Skipped(Exception):
    """Why a simulator is not compared."""


def environment(name: str, folder: Path) -> Path:
    """The interpreter of a simulator's own environment, made if it is not there."""
    home = folder / name
    interpreter, done = home / "bin/python", home / "installed"
    if done.exists():
        return interpreter
    venv.create(home, with_pip=True, clear=True)
    torch = next(
        line for line in (HERE.parent / "constraints.txt").read_text().splitlines() if line.startswith("torch==")
    )
    command = [str(interpreter), "-m", "pip", "install", "--quiet", "--no-compile", torch, *PACKAGES[name]]
    try:
        installed = subprocess.run(command, capture_output=True, text=True, timeout=INSTALLING, check=False)
    except subprocess.TimeoutExpired as error:
        raise Skipped(f"not installed within {INSTALLING} s") from error
    if installed.returncode:
        raise Skipped(f"could not be installed: {_last_line(installed.stderr)}")
    done.touch()
    return interpreter


def measured(name: str, interpreter: Path, clients: int, steps: int) -> float:
    """µs per step per client on all cores."""
    processes = CORES if name == "pfl" else 1
    command = [str(interpreter), str(HERE / "simulated_clients.py"), name, "--steps", str(steps), "--clients"]
    command += [str(clients // processes)]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "FLWR_TELEMETRY_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)
        for _ in range(processes)
    ]
    times = []
    for process in running:
        try:
            output, errors = process.communicate(timeout=RUNNING)
        except subprocess.TimeoutExpired as error:
            for each in running:
                each.kill()
            raise Skipped(f"took more than {RUNNING} s") from error
        if process.returncode:
            raise Skipped(f"failed: {_last_line(errors)}")
        times.append(float(output.strip().splitlines()[-1]))
    return statistics.mean(times) / processes


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("WARNING")]
    return lines[-1][:200] if lines else "no message"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulators", default=",".join(PACKAGES))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="two turns of few clients")
    parser.add_argument("--environments", type=Path, default=platformdirs.user_cache_path("fedveil") / "simulators")
    parser.add_argument("--out", type=Path, default=HERE / "results/simulators.json")
    asked = parser.parse_args()
    turns, clients, steps = (2, 20, 40) if asked.quick else (asked.turns, asked.clients, asked.steps)
    workload = WORKLOADS["mnist"]
    skipped: dict[str, str] = {}
    compared: dict[str, Callable[[], float]] = {}
    for name in asked.simulators.split(","):
        try:
            interpreter = environment(name, asked.environments)
            compared[name] = lambda name=name, interpreter=interpreter: measured(name, interpreter, clients, steps)
        except (Skipped, OSError, subprocess.SubprocessError) as error:
            skipped[name] = str(error)
    samples: dict[str, list[float]] = {"fedveil": []}
    job = workload.job(private=False, population=clients, cohort=clients, steps=steps)
    with LocalRuntime(job, CORES) as runtime:
        ours(runtime, workload, clients, steps)
        for _ in range(turns):
            samples["fedveil"].append(statistics.median(ours(runtime, workload, clients, steps) for _ in range(3)))
            for name in [name for name in compared if name not in skipped]:
                try:
                    samples.setdefault(name, []).append(compared[name]())
                except Skipped as error:
                    skipped[name] = str(error)
    peers: dict[str, Any] = {name: {"skipped": f"skipped: {reason}"} for name, reason in skipped.items()}
    for name in compared:
        if name not in skipped:
            ratios = [other / own for other, own in zip(samples[name], samples["fedveil"], strict=True)]
            peers[name] = {"microseconds": spread(samples[name], 1), "ratio": spread(ratios), "samples": samples[name]}
    report = {"turns": turns, "fedveil": spread(samples["fedveil"], 1), "samples": samples["fedveil"], "peers": peers}
    print(json.dumps(report, indent=2))
    asked.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
