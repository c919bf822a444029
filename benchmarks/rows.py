"""How much slower a Fed-CDP step is that noises every row by itself (`example.each_row`).

`make bench` runs it. The two take turns on one core; the median of the turns' ratios counts. Results go to
benchmarks/results/rows.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedveil.core.types import Taps
from fedveil.engine.client import Broadcast
from fedveil.runtimes.local import LocalRuntime
from workloads import WORKLOADS, Workload

HERE = Path(__file__).parent


def microseconds(runtime: LocalRuntime, start: Broadcast, clients: int, steps: int) -> float:
    """Processor time per step and client; it hardly depends on what else the machine does."""
    begun = time.process_time()
    for _ in runtime.train(start, range(clients), Taps()):
        pass
    return (time.process_time() - begun) / (clients * steps) * 1e6


def compare(workload: Workload, turns: int, clients: int, steps: int) -> dict[str, Any]:
    job = workload.job(private=True, population=clients, cohort=clients, steps=steps)
    assert job.method.example is not None
    rows = replace(job.method, example=replace(job.method.example, each_row=True))
    start = Broadcast(0, job.layout.vector(job.model))
    times: dict[str, list[float]] = {"sum": [], "each row": []}
    with LocalRuntime(job, 1) as once, LocalRuntime(replace(job, method=rows), 1) as each:
        for turn in range(turns + 1):
            for name, runtime in (("sum", once), ("each row", each)):
                taken = microseconds(runtime, start, clients, steps)
                if turn:  # the first is for warming up
                    times[name].append(taken)
    ratios = [row / summed for row, summed in zip(times["each row"], times["sum"], strict=True)]
    return {
        "title": workload.title,
        "microseconds": {name: round(statistics.median(values), 1) for name, values in times.items()},
        "ratio": round(statistics.median(ratios), 2),
        "ratios": [round(ratio, 2) for ratio in ratios],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--steps", type=int, default=20)
    asked = parser.parse_args()
    results = {}
    for name in asked.workloads.split(","):
        results[name] = compare(WORKLOADS[name], asked.turns, asked.clients, asked.steps)
        print(f"{results[name]['title']}: {results[name]['microseconds']} µs, {results[name]['ratio']} times")
    report = {"processor": platform.processor() or platform.machine(), "workloads": results}
    (HERE / "results/rows.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
