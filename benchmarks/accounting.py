"""Seconds of accounting: a whole guarantee table, the table after each further round, and calibration.

`python benchmarks/accounting.py` prints them and writes benchmarks/results/accounting.json: medians. "first"
and "calibrate" begin with nothing kept; "next" goes from round to round as a run does, and "ratio" is how many times
faster such a table is than a first one.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedveil.accounting.calibrate import calibrate
from fedveil.accounting.context import Budget, Context
from fedveil.accounting.plan import plan, replay
from fedveil.core.streams import Purpose, Streams
from fedveil.core.types import Charge, Population
from fedveil.method import Method
from fedveil.parts.batches import PoissonBatch, WithoutReplacement
from fedveil.parts.cohorts import FixedSize, PoissonCohort
from fedveil.zoo import FED_CDP

HERE = Path(__file__).parent
CLIENTS, COHORT, LAYERS, DELTA = 1000, 100, 3, 1e-5
POPULATION = Population((500,) * CLIENTS)
PARTITION = replace(FED_CDP, cohort=FixedSize(COHORT))
METHODS = {
    "partition": PARTITION,
    "poisson": replace(PARTITION, batch=PoissonBatch(5)),
    "poisson, hidden cohort": replace(PARTITION, batch=PoissonBatch(5), cohort=PoissonCohort(COHORT / CLIENTS)),
    "without replacement": replace(PARTITION, batch=WithoutReplacement(5)),
}


def forget() -> None:
    """Empty every cache of the accountant."""
    for name, module in sys.modules.items():
        if name.startswith("fedveil.accounting"):
            for found in vars(module).values():
                if isinstance(found, functools._lru_cache_wrapper):
                    found.cache_clear()


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def afresh(work: Callable[[], object], repeats: int) -> float:
    """The median, with empty caches each time."""
    found = []
    for _ in range(repeats):
        forget()
        found.append(seconds(work))
    return statistics.median(found)


def charges_of(method: Method, round: int) -> list[Charge]:
    generator = Streams.from_seed(round).generator(Purpose.COHORT)
    declared = method.declare(round, POPULATION.records[0], LAYERS, POPULATION.clients)
    cohort = generator.choice(CLIENTS, COHORT, replace=False)
    return [Charge(round, int(client), each) for client in cohort for each in declared]


def measure(method: Method, repeats: int) -> dict[str, float]:
    context = Context(method, POPULATION, LAYERS, DELTA)

    def table(rounds: int) -> object:
        return plan(context, rounds).guarantees  # every cell

    first = afresh(lambda: table(method.rounds), repeats)
    forget()
    table(1)
    following = [seconds(functools.partial(table, rounds)) for rounds in range(2, method.rounds + 1)]
    forget()
    charges: list[Charge] = []
    spent = []
    for round in range(method.rounds):
        charges += charges_of(method, round)
        spent.append(seconds(lambda: replay(context, charges, round + 1).guarantees))  # noqa: B023
    target = Budget(1.0, DELTA)
    return {
        "first table": first,
        "next table": statistics.median(following),
        "next table, slowest": max(following),
        "ratio": first / statistics.median(following),
        "next table from receipts": statistics.median(spent),
        "calibrate noise": afresh(lambda: calibrate(context, target), repeats),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "accounting.json")
    asked = parser.parse_args()
    measure(PARTITION, 1)  # imports and first calls
    found: dict[str, Any] = {"clients": CLIENTS, "cohort": COHORT, "compositions": PARTITION.rounds * 100}
    found["machine"] = {"processor": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    found["seconds"] = {}
    for name, method in METHODS.items():
        values = measure(method, asked.repeats)
        found["seconds"][name] = {key: round(value, 5) for key, value in values.items()}
        print(name + ": " + ", ".join(f"{key} {value:.4g}" for key, value in values.items()), flush=True)
    asked.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
