"""µs per local step per client: this engine against its peers, in one run on one machine.

`make bench` runs it. Everything that is compared is interleaved and repeated; medians are reported and the ratios
are what counts. Results go to benchmarks/results/steps.json.
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

from fedveil.core.parameters import Layout
from fedveil.core.streams import Address, Purpose, Streams
from fedveil.core.types import Taps
from fedveil.engine.client import Broadcast
from fedveil.mechanisms.noise import NoiseSource
from fedveil.runtimes.local import LocalRuntime, usable_cores
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


def peer(
    name: str, workload: str, *, private: bool, processes: int, threads: int | None, clients: int, steps: int
) -> float:
    """µs per step per client of `processes` peers side by side, each with its own clients."""
    command = [sys.executable, str(HERE / "peers.py"), name, workload, "--clients", str(clients), "--steps", str(steps)]
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


def compare(name: str, repeats: int, clients: int, steps: int) -> dict[str, Any]:
    """One workload: every arrangement once per repeat, in turn."""
    workload = WORKLOADS[name]
    wide = name == "mnist-wide"
    clients = clients // 5 if wide else clients
    peer_clients, peer_steps = (2, 20) if wide else (4, 50)
    with (
        LocalRuntime(workload.job(private=True, population=clients, cohort=clients, steps=steps), CORES) as private,
        LocalRuntime(workload.job(private=False, population=clients, cohort=clients, steps=steps), CORES) as open_,
    ):
        size = {"clients": peer_clients, "steps": peer_steps}
        arrangements: dict[str, Callable[[], float]] = {
            "fedveil fed-cdp": lambda: ours(private, workload, clients, steps),
            "fedveil non-private": lambda: ours(open_, workload, clients, steps),
            "opacus, default threads": lambda: peer("opacus", name, private=True, processes=1, threads=None, **size),
            "opacus, one process per core": lambda: peer(
                "opacus", name, private=True, processes=CORES, threads=1, **size
            ),
            "torch loop non-private, one process per core": lambda: peer(
                "opacus", name, private=False, processes=CORES, threads=1, **size
            ),
            "torch.func loop fed-cdp, one process per core": lambda: peer(
                "func", name, private=True, processes=CORES, threads=1, **size
            ),
            "torch.func loop non-private, one process per core": lambda: peer(
                "func", name, private=False, processes=CORES, threads=1, **size
            ),
        }
        ours(private, workload, clients, min(steps, 10))
        ours(open_, workload, clients, min(steps, 10))
        samples: dict[str, list[float]] = {label: [] for label in arrangements}
        for _ in range(repeats):
            for label, measure in arrangements.items():
                samples[label].append(measure())
    medians = {label: statistics.median(values) for label, values in samples.items()}
    cdp = medians["fedveil fed-cdp"]
    return {
        "title": workload.title,
        "microseconds": {label: round(value, 1) for label, value in medians.items()},
        "samples": {label: [round(value, 1) for value in values] for label, values in samples.items()},
        "opacus_default_ratio": round(medians["opacus, default threads"] / cdp, 2),
        "opacus_best_ratio": round(medians["opacus, one process per core"] / cdp, 2),
        "torch_func_ratio": round(medians["torch.func loop fed-cdp, one process per core"] / cdp, 2),
        "private_over_plain": round(cdp / medians["fedveil non-private"], 2),
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
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--out", type=Path, default=HERE / "results/steps.json")
    asked = parser.parse_args()
    peak = peak_gflops()
    results: dict[str, Any] = {}
    for name in asked.workloads.split(","):
        results[name] = compare(name, asked.repeats, asked.clients, asked.steps)
        results[name]["share_of_peak"] = round(
            results[name]["flops"] / results[name]["microseconds"]["fedveil fed-cdp"] / 1e3 / peak, 3
        )
        print(f"\n{results[name]['title']}")
        for label, value in results[name]["microseconds"].items():
            print(f"  {label:52} {value:10.1f} µs")
        for key in ("opacus_default_ratio", "opacus_best_ratio", "torch_func_ratio", "private_over_plain"):
            print(f"  {key:52} {results[name][key]:10.2f} ×")
        for key in ("noise_share", "share_of_peak"):
            print(f"  {key:52} {results[name][key]:10.1%}")
    about = {
        "peak_gflops": round(peak, 1),
        "cores": CORES,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    report = {"about": about, "workloads": results, "scaling": scaling(asked.repeats), "memory": memory()}
    print(f"\nscaling {report['scaling']}\nmemory {report['memory']}")
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"written to {asked.out}")


if __name__ == "__main__":
    main()
