"""What privacy costs: every preset's round against the same round without clipping, noise, compression or own models.

Whole rounds through the one loop on one worker, the two interleaved and repeated; medians, and their ratios. Also the
peak memory of a round of 500 out of 10,000 clients. Results go to benchmarks/results/presets.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import torch

from fedveil.config.spec import resolve
from fedveil.data.dataset import load
from fedveil.engine.loop import rounds
from fedveil.engine.personal_models import PersonalModels
from fedveil.method import Method
from fedveil.parts.cohorts import Everyone, FixedSize
from fedveil.parts.personal import Shared
from fedveil.runs.prepare import Prepared, prepare
from fedveil.runtimes.local import LocalRuntime
from fedveil.zoo import ZOO

HERE = Path(__file__).parent
TASK = {"data.clients": 50, "data.test": 0, "seed": 1, "privacy.calibrate": False, "privacy.epsilon": "none"}


def plain(method: Method) -> Method:
    """The same local work and aggregation, without anything that protects or compresses."""
    return replace(method, example=None, upload=None, server=None, compress=None, personal=Shared())


def prepared(name: str, clients: int) -> Prepared:
    spec = resolve(name, {**TASK, "data.clients": clients})
    cohort = Everyone() if clients <= 50 else FixedSize(500)
    return prepare(replace(spec, method=replace(spec.method, cohort=cohort)), load("mnist"))


def one_round(ready: Prepared, method: Method, workers: int) -> float:
    """Seconds of one round, without the start of the workers."""
    with tempfile.TemporaryDirectory() as directory:
        ready = ready.with_spec(replace(ready.spec, method=method))
        own = None if isinstance(method.personal, Shared) else PersonalModels(method.personal, Path(directory))
        with LocalRuntime(ready.job, workers=workers) as runtime:
            begun = time.perf_counter()
            made = rounds(
                method,
                ready.initial_state(),
                ready.sites.population,
                ready.layout,
                runtime,
                ready.streams,
                personal=own,
            )
            next(made)
            return time.perf_counter() - begun


def peak_memory(name: str, clients: int) -> float:
    """Gigabytes of this process and its workers at their peak during a round of 500 clients."""
    ready, peak, done = prepared(name, clients), [0.0], threading.Event()

    def watch() -> None:
        me = psutil.Process()
        while not done.wait(0.05):
            try:
                peak[0] = max(peak[0], sum(p.memory_info().rss for p in [me, *me.children(recursive=True)]))
            except psutil.NoSuchProcess:
                continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        one_round(ready, ready.spec.method, workers=2)
    finally:
        done.set()
        watcher.join()
    return peak[0] / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--methods", default=",".join(ZOO))
    parser.add_argument("--no-memory", action="store_true")
    arguments = parser.parse_args()
    found: dict[str, Any] = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__}
    table = found["rounds"] = {}
    for name in arguments.methods.split(","):
        ready = prepared(name, 50)
        private, bare = [], []
        for _ in range(arguments.repeats):
            private.append(one_round(ready, ready.spec.method, 1))
            bare.append(one_round(ready, plain(ready.spec.method), 1))
        seconds, without = statistics.median(private), statistics.median(bare)
        table[name] = {
            "seconds": round(seconds, 4),
            "plain_seconds": round(without, 4),
            "ratio": round(seconds / without, 3),
        }
        print(f"{name:20} {seconds:7.3f} s   plain {without:7.3f} s   ratio {seconds / without:.2f}", flush=True)
    if not arguments.no_memory:
        names = ("fed-cdp", "geyer", "fed-sdp-client", "ldp-sgd-quantile", "prifedsync", "dssgd")
        found["peak_gigabytes_500_of_10000_clients"] = {name: round(peak_memory(name, 10_000), 2) for name in names}
        print(found["peak_gigabytes_500_of_10000_clients"])
    (HERE / "results" / "presets.json").write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
