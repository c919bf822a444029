"""A coordinator's own work in a round of a thousand sites, without a network: by the clock and of CPU.

`python benchmarks/thousand_sites.py` prints it and writes benchmarks/results/thousand_sites.json. The coordinator is
the product's own (`run_federation` on a disk: charges, receipts, marks, events, checkpoints, every one synced), the
transport is the one in process, and the sites are stand-ins that sign noise and the receipts that the plan wants. What
they take is subtracted. `--profile` prints where the time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import platform
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from federation import PLAN, SCHEMA, Watching, drawn_table
from fedveil.config.federation_plan import FederationPlan, RegisteredSite
from fedveil.core.declaration_records import receipt_record
from fedveil.core.signing import SigningKey
from fedveil.core.types import Receipt
from fedveil.data.schema_file import read_schema
from fedveil.federation.coordinating import run_federation
from fedveil.federation.coordinator_home import CoordinatorHome
from fedveil.federation.planning import plan_of, read_validation, write_home
from fedveil.runtimes.in_process import InProcess
from fedveil.runtimes.messages import Speaker, read_message, tensor_bytes, write_message
from fedveil.runtimes.site_network import question_name

RECORDS = 300
OUT = Path(__file__).parent / "results" / "thousand_sites.json"


class StandIns:
    """Sites that train nothing; `wall` and `processor` are the seconds that they took."""

    def __init__(self, plan: FederationPlan, keys: dict[str, SigningKey]) -> None:
        self._plan, self._keys = plan, keys
        self._question: tuple[bytes, str] = (b"", "")
        self.wall = self.processor = 0.0

    def answers(self) -> dict[str, Callable[[bytes], bytes]]:
        return {name: self._answering(number, name) for number, name in enumerate(self._keys)}

    def _answering(self, number: int, name: str) -> Callable[[bytes], bytes]:
        def answer(question: bytes) -> bytes:
            wall, processor = time.perf_counter(), time.process_time()
            given = self._answer(number, name, question)
            self.wall += time.perf_counter() - wall
            self.processor += time.process_time() - processor
            return given

        return answer

    def _answer(self, number: int, name: str, question: bytes) -> bytes:
        plan = self._plan
        asked = read_message(question, Speaker.COORDINATOR, plan.digest, bytes.fromhex(plan.coordinator))
        mark = os.urandom(96).hex()  # like a site's own: it changes with every answer
        if asked.header["kind"] == "join":
            header: dict[str, Any] = {"kind": "joined", "price": 1.0, "rehearsal": False, "mark": mark}
            return write_message(self._keys[name], Speaker.SITE, plan.digest, header)
        round, model = asked.header["round"], asked.tensors["parameters"]
        (declared,) = plan.spec.method.declare(round, RECORDS, plan.layers, len(plan.sites), None)
        receipt = Receipt(round, number, declared, True, declared.steps * plan.parameters)
        header = {
            "kind": "update",
            "receipts": [receipt_record(receipt)],
            "question": question_name(plan.digest, round, None, model),
            "round": round,
            "mark": mark,
        }
        update = tensor_bytes({"update": 0.01 * torch.randn(plan.parameters)})
        return write_message(self._keys[name], Speaker.SITE, plan.digest, header, update)


class OwnWork(Watching):
    """Seconds of every round but the first, by the clock and of CPU, without what the stand-ins took."""

    def __init__(self, sites: StandIns) -> None:
        super().__init__()
        self._sites = sites
        self._marks: list[tuple[float, float]] = []

    def round(self, done: int, rounds: int, measured: str) -> None:
        self._marks.append((time.perf_counter() - self._sites.wall, time.process_time() - self._sites.processor))

    def spent(self) -> tuple[list[float], list[float]]:
        pairs = list(zip(self._marks, self._marks[1:], strict=False))
        return [b[0] - a[0] for a, b in pairs], [b[1] - a[1] for a, b in pairs]


def measured(folder: Path, count: int, rounds: int, profile: bool) -> dict[str, Any]:
    (folder / "schema.toml").write_text(SCHEMA)
    drawn_table(folder / "public.csv", 200, seed=-1)
    schema = read_schema(folder / "schema.toml")
    keys = {f"site-{number}": SigningKey.generate() for number in range(count)}
    own = SigningKey.generate()
    plan = plan_of(
        {**PLAN, "model": {"name": "mlp", "options": {"hidden": [200]}}, "stop": {"rounds": rounds}},
        name="thousand",
        sites=[RegisteredSite(name, RECORDS, key.public.hex) for name, key in keys.items()],
        schema=schema,
        validation=read_validation(folder / "public.csv", schema),
        deadline=60.0,
        key=own,
    )
    home = write_home(CoordinatorHome(folder / "coordinator"), plan, own, folder / "public.csv")
    sites = StandIns(plan, keys)
    work = OwnWork(sites)
    profiler = cProfile.Profile() if profile else None
    if profiler is not None:
        profiler.enable()
    run_federation(home, InProcess(sites.answers()), reporter=work)
    if profiler is not None:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(45)
    wall, processor = work.spent()
    return {
        "sites": count,
        "parameters": plan.parameters,
        "rounds": rounds,
        "clock": round(statistics.median(wall), 3),
        "slowest": round(max(wall), 3),
        "processor": round(statistics.median(processor), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sites", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--profile", action="store_true", help="Print where the time goes, and write nothing.")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    report: dict[str, Any] = {
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()},
        "load": round(os.getloadavg()[0], 1),
    }
    with tempfile.TemporaryDirectory() as folder:
        report |= measured(Path(folder), chosen.sites, chosen.rounds, chosen.profile)
    text = json.dumps(report, indent=2)
    print(text)
    if not chosen.profile:
        OUT.write_text(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
