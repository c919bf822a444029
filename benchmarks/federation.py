"""Seconds and bytes of a round over NVFlare, and memory of its parties, with every party a process on this machine.

`python benchmarks/federation.py` prints them and writes benchmarks/results/federation.json. "carried" has sites that
send back what they got, so it is the transport alone: a tiny model and one of 4 MB, with 4 and 24 sites. "trained, 4
sites" is the demonstration: four hospitals that train. "trained, 24 sites" are sites with small tables of drawn
records. Memory is resident, of a site's two processes together (its own, and NVFlare's). Questions are pushed, so no
part of a round is polling: a round of the tiny model is all the delay there is. `load` is that of the machine before
it began.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fedveil.runtimes.child_processes import ChildProcesses
from fedveil.runtimes.loopback import LoopbackKits, loopback_kits
from fedveil.runtimes.nvflare import FlareTransport, serve_site

HERE = Path(__file__).parent
SIZES = {"tiny": 1_000, "4 MB": 4_000_000}
START, DEADLINE = 600.0, 300.0


def resident(process: int) -> float:
    """MB of a process and all that it started."""
    own = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return (int(own[1]) / 1024 if own else 0.0) + sum(resident(int(child)) for child in children)


def bytes_at(port: int) -> int | None:
    """What has gone through the coordinator's port, both ways, TLS and all; None where `ss` does not tell."""
    try:
        told = subprocess.run(["ss", "-tin", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return sum(map(int, re.findall(r"bytes_(?:sent|received):(\d+)", told)))


def carried(kits: LoopbackKits, rounds: int) -> dict[str, Any]:
    """Rounds of sites that send back what they got."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    names = frozenset(kits.sites)
    begun = time.perf_counter()
    with ChildProcesses(kits.folder) as sites:
        for name in kits.sites:
            sites.start(name, [Path(__file__).stem, "--serve", str(kits.site(name))], environment)
        with FlareTransport(kits.coordinator) as transport:
            if missing := transport.wait_for(names, START):
                raise SystemExit(f"did not come: {', '.join(sorted(missing))}")
            report: dict[str, Any] = {"start": round(time.perf_counter() - begun, 1)}
            for title, size in SIZES.items():
                before, seconds = bytes_at(kits.port), []
                for _ in range(rounds):
                    questions = dict.fromkeys(names, os.urandom(size))
                    begun = time.perf_counter()
                    answers = dict(transport.ask(questions, DEADLINE))
                    seconds.append(time.perf_counter() - begun)
                    if answers != questions:
                        raise SystemExit(f"{len(names) - len(answers)} sites did not answer")
                after = bytes_at(kits.port)
                report[title] = {
                    "round": round(statistics.median(seconds), 4),
                    "slowest": round(max(seconds), 4),
                    "payload": 2 * size * len(names),
                    "bytes": None if before is None or after is None else round((after - before) / rounds),
                    "site": round(max(resident(sites.process_id(name)) for name in names)),
                    "coordinator": round(resident(os.getpid()) - sum(resident(sites.process_id(n)) for n in names)),
                }
    return report


class Watching:
    """Follows a run: times of rounds, and the memory of the processes that this one has started, round by round."""

    def __init__(self) -> None:
        self.gaps: list[float] = []
        self.memory: dict[str, float] = {}
        self._last: float | None = None

    def promise(self, *promised: object) -> None: ...

    def begin(self, title: str, rounds: int, done: int) -> None: ...

    def note(self, text: str) -> None: ...

    def round(self, done: int, rounds: int, measured: str) -> None:
        if self._last is not None:
            self.gaps.append(time.perf_counter() - self._last)
        me = os.getpid()
        for child in Path(f"/proc/{me}/task/{me}/children").read_text().split():
            serves = b"\0serve\0" in Path(f"/proc/{child}/cmdline").read_bytes()
            key = "site" if serves else "coordinator's NVFlare"
            self.memory[key] = max(self.memory.get(key, 0.0), resident(int(child)))
        own = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
        self.memory["coordinator"] = int(own[1]) / 1024 if own else 0.0
        self._last = time.perf_counter()  # what was looked up here is no part of a round


def trained(folder: Path) -> dict[str, Any]:
    """The demonstration."""
    from fedveil.federation.demonstration import demonstrate  # what only carries needs no PyTorch

    watching = Watching()
    shown = demonstrate(folder / "demo", watching, lambda line: None)
    return {
        "seconds": round(shown.seconds, 1),
        "round": round(statistics.median(watching.gaps), 4),
        "memory": {who: round(amount) for who, amount in watching.memory.items()},
    }


def drawn_table(path: Path, rows: int, seed: int) -> None:
    """Records that nobody has: two numbers, and a flag that follows them."""
    chance = random.Random(seed)
    lines = ["age,pressure,sick"]
    for _ in range(rows):
        sick = chance.random() < 0.5
        age, pressure = chance.uniform(20, 60) + 30 * sick, chance.uniform(90, 150) + 40 * sick
        lines.append(f"{age:.1f},{pressure:.1f},{'yes' if sick else 'no'}")
    path.write_text("\n".join(lines) + "\n")


SCHEMA = """target = "sick"
[columns]
age = {type = "number", low = 0, high = 100}
pressure = {type = "number", low = 50, high = 250}
sick = {type = "flag"}
"""
PLAN = {
    "method": "fed-cdp-batch",
    "model": {"name": "mlp", "options": {"hidden": []}},
    "cohort": {"kind": "everyone"},
    "batch": {"kind": "poisson", "size": 16},
    "local": {"steps": 2, "rate": 0.5},
    "example": {"sigma": 3.0, "clip": {"bound": 1.0, "by": "flat"}},
    "privacy": {"delta": 1e-3},
}


def trained_at(folder: Path, count: int, rounds: int) -> dict[str, Any]:
    """So many sites that train a tiny model, each as `fedveil site serve`."""
    import tomli_w

    from fedveil.accounting.context import Budget
    from fedveil.core.types import Unit, View
    from fedveil.federation.connecting import LOOPBACK, invite
    from fedveil.federation.coordinating import run_federation
    from fedveil.federation.planning import make_federation_plan, registration_files
    from fedveil.runtimes.child_processes import free_port
    from fedveil.runtimes.invitation import read_invitation
    from fedveil.site.approval import approve
    from fedveil.site.connection import add_request, connect
    from fedveil.site.home import make_site
    from fedveil.site.policy import SitePolicy

    folder.mkdir()
    (folder / "schema.toml").write_text(SCHEMA)
    drawn_table(folder / "public.csv", 200, seed=-1)
    budget = Budget(50.0, 1e-3, Unit.RECORD, View.SERVER)
    homes = []
    for number in range(count):
        table = folder / f"site-{number}.csv"
        drawn_table(table, 300, number)
        home = make_site(
            folder / table.stem,
            name=table.stem,
            data=table,
            schema=folder / "schema.toml",
            policy=SitePolicy(plan=budget, lifetime=budget),
        )
        add_request(home)
        homes.append(home)
    about = {
        "name": "drawn",
        "sites": [f"{home.name}/registration.json" for home in homes],
        "schema": "schema.toml",
        "validation": "public.csv",
        "deadline": START,
    }
    settings = folder / "drawn.toml"
    settings.write_text(tomli_w.dumps({**PLAN, "stop": {"rounds": rounds}, "federation": about}))
    coordinator = make_federation_plan(settings, folder / "coordinator")
    for home, path in zip(
        homes, invite(coordinator, registration_files(settings), LOOPBACK[0], free_port()), strict=True
    ):
        approve(home, coordinator.plan)
        connect(home, read_invitation(path))
    watching, begun = Watching(), time.perf_counter()
    with ChildProcesses(folder) as processes:
        for home in homes:
            processes.start(home.name, ["fedveil.cli", "site", "serve", "--home", str(home.directory)])
        with FlareTransport(coordinator.kit) as transport:
            if missing := transport.wait_for(frozenset(home.name for home in homes), START):
                raise SystemExit(f"did not come: {', '.join(sorted(missing))}")
            started = time.perf_counter() - begun
            result = run_federation(coordinator, transport, reporter=watching)
    return {
        "start": round(started, 1),
        "rounds": result.rounds,
        "round": round(statistics.median(watching.gaps), 4),
        "slowest": round(max(watching.gaps), 4),
        "accuracy": result.accuracy,
        "memory": {who: round(amount) for who, amount in watching.memory.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sites", type=int, nargs="*", default=[4, 24])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--trained", type=int, nargs="*", default=[24], help="Numbers of sites that train.")
    parser.add_argument("--carried-only", action="store_true", help="Without the demonstration, which needs its data.")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "federation.json")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve is not None:
        serve_site(chosen.serve, lambda question: question, lambda line: print(line, flush=True))
    report: dict[str, Any] = {
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()},
        "load": round(os.getloadavg()[0], 1),
    }
    with tempfile.TemporaryDirectory() as folder:
        for count in chosen.sites:
            place = Path(folder) / str(count)
            place.mkdir()
            report[f"carried, {count} sites"] = carried(
                loopback_kits(place, tuple(f"site-{number}" for number in range(count))), chosen.rounds
            )
        if not chosen.carried_only:
            report["trained, 4 sites"] = trained(Path(folder))
            for count in chosen.trained:
                report[f"trained, {count} sites"] = trained_at(Path(folder) / f"trained-{count}", count, chosen.rounds)
    text = json.dumps(report, indent=2)
    print(text)
    chosen.out.write_text(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
