"""Real processes whose clocks are a day ahead, a day behind, and set while they work (libfaketime): they train.

Every party goes its whole way by its own clock: keys, certificates, consent, serving. Skipped where libfaketime is
neither installed (`pip install libfaketime`) nor named by FAKETIME_LIBRARY.
"""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import tomli_w
from federation_scene import SCHEMA, SETTINGS, write_table

pytest.importorskip("nvflare")

from fedveil.federation.coordinator_home import CoordinatorHome
from fedveil.runtimes.child_processes import ChildProcesses, free_port
from fedveil.site.home import SiteHome

ROUNDS = 30
CLOCKS = {"north": "+1d", "south": "-1d"}
DAY = 86_400.0


def library() -> str | None:
    """Of `pip install libfaketime`. That of Debian's package breaks the sleep of Python 3.11 and later."""
    spec = find_spec("libfaketime")
    places = [os.environ.get("FAKETIME_LIBRARY", "")]
    if spec is not None and spec.origin is not None:
        places.append(str(Path(spec.origin).parent / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"))
    return next((place for place in places if place and Path(place).is_file()), None)


def by_clock(**clock: str) -> dict[str, str]:
    """An environment in which the clock is set so; monotonic clocks go on, as where somebody sets the clock."""
    return {
        **os.environ,
        "LD_PRELOAD": library() or "",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_NO_CACHE": "1",
        **clock,
    }


def fedveil(environment: dict[str, str], *arguments: str | Path) -> None:
    command = [sys.executable, "-m", "fedveil.cli", *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def rounds_done(home: CoordinatorHome) -> int:
    return home.run.published_rounds() if home.run.checkpoints.is_dir() else 0


@pytest.mark.slow
@pytest.mark.skipif(library() is None, reason="libfaketime is not installed")
def test_clocks_that_are_days_apart_or_set_in_mid_round_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    write_table(tmp_path / "public.csv", 50, seed=99)
    sites = {name: by_clock(FAKETIME=shift) for name, shift in CLOCKS.items()}
    for number, (name, environment) in enumerate(sites.items()):
        write_table(tmp_path / f"{name}.csv", 60, seed=number)
        made = ["--data", tmp_path / f"{name}.csv", "--schema", tmp_path / "schema.toml", "--home", tmp_path / name]
        fedveil(environment, "site", "init", "--name", name, *made, "--epsilon", "50", "--lifetime-epsilon", "50")
    about = {
        "name": "clocks",
        "sites": [f"{name}/registration.json" for name in sites],
        "schema": "schema.toml",
        "validation": "public.csv",
        "deadline": 60,
    }
    settings = {**SETTINGS, "stop": {"rounds": ROUNDS}, "privacy": {"delta": 1e-5}, "federation": about}
    (tmp_path / "plan.toml").write_text(tomli_w.dumps(settings))
    own = tmp_path / "own clock"
    own.write_text("+0")
    here = by_clock(FAKETIME_TIMESTAMP_FILE=str(own))
    home = CoordinatorHome(tmp_path / "coordinator")
    fedveil(here, "federation", "init", tmp_path / "plan.toml", "--home", home.directory, "--port", str(free_port()))
    for name, environment in sites.items():
        invitation = home.directory / "invitations" / f"{name}.json"
        fedveil(environment, "site", "approve", invitation, "--home", tmp_path / name, "--yes")
    with ChildProcesses(tmp_path) as processes:
        for name, environment in sites.items():
            processes.start(name, ["fedveil.cli", "site", "serve", "--home", str(tmp_path / name)], environment)
        processes.start("run", ["fedveil.cli", "federation", "run", "--home", str(home.directory)], here)
        end = time.monotonic() + 240
        for least, shift in ((3, "+1d"), (8, "-1d"), (13, "+0")):  # the coordinator's clock is set, and set again
            while rounds_done(home) < least:
                processes.check()
                assert time.monotonic() < end, processes.log("run").read_text()
                time.sleep(0.05)
            own.write_text(shift)
        while not home.run.result.exists():
            assert time.monotonic() < end, processes.log("run").read_text()
            time.sleep(0.1)
    assert rounds_done(home) == ROUNDS
    for name, days in (("north", 1), ("south", -1)):
        with SiteHome(tmp_path / name).opened_ledger() as ledger:
            assert [paid.round for paid in ledger.paid] == list(range(ROUNDS))  # once each
            last = datetime.datetime.fromisoformat(ledger.paid[-1].time).timestamp()
        assert abs(last - time.time() - days * DAY) < 3600  # a control: the clocks were really set
