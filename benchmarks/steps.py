"""µs per local step per client: this engine against its peers, in one run on one machine.

`make bench` runs it. Everything that is compared takes turns; a ratio is taken in every turn, and its median and range
over the turns are what counts. Results go to benchmarks/results/steps.json, and `page.py` makes the page of them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import torch

from fedveil.core.cores import usable_cores
from fedveil.core.parameters import Layout
from fedveil.core.streams import Address, Purpose, Streams
from fedveil.core.types import Taps
from fedveil.engine.client import Broadcast
from fedveil.mechanisms.noise import NoiseSource
from fedveil.native.small_layers import VECTOR_WIDTHS
from fedveil.runtimes.local import LocalRuntime
from workloads import WORKLOADS, Workload

HERE = Path(__file__).parent
CORES = usable_cores()


def ours(runtime: LocalRuntime, workload: Workload, clients: int, steps: int) -> float:
    """µs per step per client of a running runtime."""
    network = workload.network()
    broadcast = Broadcast(0, Layout.of(network).vector(network))
    begun = time.perf_counter()
    for _ in runtime.train(broadcast, range(clients), Taps()):
        pass
    return (time.perf_counter() - begun) / (clients * steps) * 1e6


def peer(workload: str, *, private: bool, processes: int, threads: int | None, clients: int, steps: int) -> float:
    """µs per step per client of `processes` peers side by side, each with its own clients."""
    command = [sys.executable, str(HERE / "peers.py"), workload, "--clients", str(clients), "--steps", str(steps)]
    command += ["--private"] if private else []
    command += ["--threads", str(threads)] if threads else []
    environment = {**os.environ, **({"OMP_NUM_THREADS": str(threads)} if threads else {})}
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(processes)]
    times = [float(process.communicate()[0]) for process in running]
    return statistics.mean(times) / processes


def peak_gflops() -> float:
    """Matrix multiplication on all cores, one single-threaded process each."""
    code = (
        "import torch,time;torch.set_num_threads(1);a=torch.randn(768,768);a@a;t=time.perf_counter();"
        "[a@a for _ in range(150)];print(2*768**3*150/(time.perf_counter()-t)/1e9)"
    )
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(CORES)]
    return sum(float(process.communicate()[0]) for process in running)


def noise_share(workload: Workload, step: float) -> float:
    """The part of one private step (on all cores) that goes into drawing its noise."""
    torch.set_num_threads(1)
    source = NoiseSource(Streams.from_seed(0))
    sums = torch.zeros(16, Layout.of(workload.network()).size)
    best = float("inf")
    for step_number in range(30):
        addresses = [Address(0, client, step_number) for client in range(16)]
        begun = time.perf_counter()
        source.add(Purpose.EXAMPLE_NOISE, addresses, sums, 1.0)
        best = min(best, (time.perf_counter() - begun) / 16)
    return best * 1e6 / CORES / step


PRIVATE, PLAIN = "fedveil fed-cdp", "fedveil non-private"
OPACUS, OPACUS_THREADS = "opacus, one process per core", "opacus, default threads"
NAIVE = "torch loop non-private, one process per core"

RATIOS = {
    "fed-cdp over opacus": (OPACUS, PRIVATE),
    "fed-cdp over opacus, default threads": (OPACUS_THREADS, PRIVATE),
    "plain over a torch loop": (NAIVE, PLAIN),
    "private over plain": (PRIVATE, PLAIN),
}
"""The first one's time over the second one's."""


def processor() -> str:
    """What the processor calls itself: ratios differ between makes."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    name = facts.get("model name", platform.processor() or platform.machine())
    return f"{name}, family {facts['cpu family']}" if "cpu family" in facts else name


def spread(values: list[float], digits: int = 2) -> dict[str, float]:
    """Median, least and most."""
    return {
        name: round(number, digits)
        for name, number in zip(
            ("median", "least", "most"), (statistics.median(values), min(values), max(values)), strict=True
        )
    }


def of_turns(samples: dict[str, list[float]]) -> dict[str, Any]:
    """What is reported of times that took turns: medians, and ratios with their spread over the turns."""
    return {
        "microseconds": {label: spread(values, 1) for label, values in samples.items()},
        "ratios": {
            name: spread([one / other for one, other in zip(samples[first], samples[second], strict=True)])
            for name, (first, second) in RATIOS.items()
            if first in samples and second in samples
        },
        "samples": {label: [round(value, 1) for value in values] for label, values in samples.items()},
    }


def compare(name: str, turns: int, clients: int, steps: int) -> dict[str, Any]:
    """One workload: every arrangement once per turn."""
    workload = WORKLOADS[name]
    wide = name == "mnist-wide"
    clients, steps = (clients // 5, steps // 2) if wide else (clients, steps)
    size = {"clients": 2, "steps": 20} if wide else {"clients": 4, "steps": 50}
    with (
        LocalRuntime(workload.job(private=True, population=clients, cohort=clients, steps=steps), CORES) as private,
        LocalRuntime(workload.job(private=False, population=clients, cohort=clients, steps=steps), CORES) as open_,
    ):
        arrangements: dict[str, Callable[[], float]] = {
            PRIVATE: lambda: ours(private, workload, clients, steps),
            PLAIN: lambda: ours(open_, workload, clients, steps),
            OPACUS: lambda: peer(name, private=True, processes=CORES, threads=1, **size),
            NAIVE: lambda: peer(name, private=False, processes=CORES, threads=1, **size),
            OPACUS_THREADS: lambda: peer(name, private=True, processes=1, threads=None, **size),
        }
        for label in (PRIVATE, PLAIN):
            arrangements[label]()  # memory is laid out
        samples: dict[str, list[float]] = {label: [] for label in arrangements}
        for _ in range(turns):
            for label, measure in arrangements.items():
                samples[label].append(measure())
    cdp = statistics.median(samples[PRIVATE])
    return {
        "title": workload.title,
        **of_turns(samples),
        "noise_share": round(noise_share(workload, cdp), 3),
        "flops": workload.flops(),
    }


def scaling(repeats: int) -> dict[str, Any]:
    """One worker against all cores, and time per client as the cohort grows."""
    workload, steps = WORKLOADS["mnist"], 100
    job = workload.job(private=True, population=400, cohort=400, steps=steps)
    samples: dict[str, list[float]] = {"one": [], "all": []}
    growth: dict[int, list[float]] = {50: [], 100: [], 200: [], 400: []}
    with LocalRuntime(job, CORES) as every:
        for _ in range(repeats):
            samples["all"].append(ours(every, workload, 100, steps))
            with LocalRuntime(job, 1) as one:
                samples["one"].append(ours(one, workload, 100, steps))
            for clients, times in growth.items():
                times.append(ours(every, workload, clients, steps))
    return {
        "cores": CORES,
        "steps": steps,
        "speed_up": round(statistics.median(samples["one"]) / statistics.median(samples["all"]), 2),
        "microseconds_by_cohort": {str(k): round(statistics.median(v), 1) for k, v in growth.items()},
    }


def memory() -> dict[str, Any]:
    """Peak memory of the whole process tree in a round of 1,000 of 10,000 MNIST clients."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from steps import WORKLOADS, LocalRuntime, CORES, ours\n"
        "w = WORKLOADS['mnist']\n"
        "with LocalRuntime(w.job(private=True, population=10_000, cohort=1000, steps=20), CORES) as r:\n"
        "    print(ours(r, w, 1000, 20))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(HERE)], stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, _resident(process.pid))
        time.sleep(0.1)
    return {"clients": 10_000, "cohort": 1000, "peak_megabytes": round(peak / 2**20)}


def _resident(pid: int) -> int:
    try:
        root = psutil.Process(pid)
        return sum(process.memory_info().rss for process in [root, *root.children(recursive=True)])
    except psutil.NoSuchProcess:
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--no-scaling", action="store_true", help="without scaling and memory")
    parser.add_argument("--quick", action="store_true", help="fewer clients and turns, without scaling and memory")
    parser.add_argument("--out", type=Path, default=HERE / "results/steps.json")
    asked = parser.parse_args()
    turns, clients, steps = (2, 20, 40) if asked.quick else (asked.turns, asked.clients, asked.steps)
    peak = peak_gflops()
    results: dict[str, Any] = {}
    for name in asked.workloads.split(","):
        results[name] = result = compare(name, turns, clients, steps)
        time_of_step = result["microseconds"][PRIVATE]["median"]
        result["share_of_peak"] = round(result["flops"] / time_of_step / 1e3 / peak, 3)
        print(f"\n{result['title']}")
        for label, value in result["microseconds"].items():
            print(f"  {label:52} {value['median']:10.1f} µs ({value['least']} to {value['most']})")
        for label, value in result["ratios"].items():
            print(f"  {label:52} {value['median']:10.2f} × ({value['least']} to {value['most']})")
        for key in ("noise_share", "share_of_peak"):
            print(f"  {key:52} {result[key]:10.1%}")
    machine = {
        "processor": processor(),
        "peak_gflops": round(peak, 1),
        "cores": CORES,
        "vectors": VECTOR_WIDTHS[0] if VECTOR_WIDTHS else 0,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    report = {"about": machine, "turns": turns, "quick": asked.quick, "workloads": results}
    if not (asked.quick or asked.no_scaling):
        report |= {"scaling": scaling(turns), "memory": memory()}
        print(f"\nscaling {report['scaling']}\nmemory {report['memory']}")
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"written to {asked.out}")


if __name__ == "__main__":
    main()
