"""CPU time of one local step of one client, on networks of the kinds people bring.

fedveil does the whole work of sixteen clients (drawing, clipping, noise, receipts), in the chunks that its runtime cuts
them into; Opacus trains one client after another, per layer as Fed-CDP does, and so does a naive loop without privacy.
Everything runs in one process with one thread, in turn, and repeated: with one such process per core it is what every
core does. CPU time suffers least from whatever else the machine does. Results go to benchmarks/results/networks.json.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fedveil.core.parameters import Layout
from fedveil.data.dataset import to_float
from fedveil.engine.batched import Engine
from fedveil.engine.client import Broadcast
from fedveil.runtimes.local import KEEP_FREED
from network_workloads import NETWORKS, NetworkWorkload
from peers import opacus_per_layer, plain_sgd
from steps import processor

HERE = Path(__file__).parent
CLIENTS, STEPS = 16, 20
"""Clients of a round, and steps of each. A client's work begins, for all alike, with a copy of the round's model."""


def ours(workload: NetworkWorkload, private: bool) -> Callable[[], float]:
    """µs of CPU time a step and client, of the engine in this process."""
    engine = Engine(workload.job(private=private, population=CLIENTS, cohort=CLIENTS, steps=STEPS))
    network = workload.network()
    start, count = Layout.of(network).vector(network), -(-CLIENTS // engine.plan.clients)
    chunks = [range(number * CLIENTS // count, (number + 1) * CLIENTS // count) for number in range(count)]

    def measure() -> float:
        begun = time.process_time()
        for clients in chunks:
            engine.train(Broadcast(0, start), clients)
        return (time.process_time() - begun) / (CLIENTS * STEPS) * 1e6

    return measure


def peers(workload: NetworkWorkload, private: bool) -> Callable[[], float]:
    """The same of Opacus, on the network as it wants it, or of a naive loop."""
    network = workload.network()
    if private:
        from opacus.validators import ModuleValidator

        network = ModuleValidator.fix(network)
    examples = workload.examples(STEPS * workload.batch)
    inputs, labels = to_float(examples.inputs).split(workload.batch), examples.labels.split(workload.batch)
    batches, train = list(zip(inputs, labels, strict=True)), opacus_per_layer if private else plain_sgd

    def measure() -> float:
        begun = time.process_time()
        train(copy.deepcopy(network), batches)
        return (time.process_time() - begun) / STEPS * 1e6

    return measure


def compare(workload: NetworkWorkload, repeats: int) -> dict[str, Any]:
    """One network: every arrangement once per repeat, in turn; the first turn warms up."""
    arrangements = {
        "fedveil fed-cdp": ours(workload, private=True),
        "opacus": peers(workload, private=True),
        "fedveil non-private": ours(workload, private=False),
        "naive torch loop non-private": peers(workload, private=False),
    }
    samples: dict[str, list[float]] = {label: [] for label in arrangements}
    for turn in range(repeats + 1):
        for label, measure in arrangements.items():
            value = measure()
            if turn:
                samples[label].append(value)
    medians = {label: statistics.median(values) for label, values in samples.items()}

    def ratio(above: str, below: str) -> dict[str, float]:
        pairs = [one / two for one, two in zip(samples[above], samples[below], strict=True)]
        median = medians[above] / medians[below]
        return {"median": round(median, 2), "least": round(min(pairs), 2), "most": round(max(pairs), 2)}

    return {
        "title": workload.title,
        "parameters": Layout.of(workload.network()).size,
        "steps": STEPS,
        "microseconds": {label: round(value, 1) for label, value in medians.items()},
        "samples": {label: [round(value, 1) for value in values] for label, values in samples.items()},
        "opacus_over_fed_cdp": ratio("opacus", "fedveil fed-cdp"),
        "naive_over_plain": ratio("naive torch loop non-private", "fedveil non-private"),
        "private_over_plain": ratio("fedveil fed-cdp", "fedveil non-private"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "results/networks.json")
    asked = parser.parse_args()
    if any(name not in os.environ for name in KEEP_FREED):  # for all alike, as fedveil's workers have it
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP_FREED})
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    report = json.loads(asked.out.read_text()) if asked.out.exists() else {"networks": {}}
    for name in asked.networks.split(","):
        found = report["networks"][name] = compare(NETWORKS[name], asked.repeats)
        print(f"\n{found['title']}")
        for label, value in found["microseconds"].items():
            print(f"  {label:40} {value:10.1f} µs")
        for key in ("opacus_over_fed_cdp", "naive_over_plain", "private_over_plain"):
            spread = found[key]
            print(f"  {key:40} {spread['median']:10.2f} ×   ({spread['least']:.2f} to {spread['most']:.2f})")
    report["about"] = {
        "unit": "µs of CPU time a step and client, one thread",
        "processor": processor(),
        "load": round(os.getloadavg()[0], 1),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"written to {asked.out}")


if __name__ == "__main__":
    main()
