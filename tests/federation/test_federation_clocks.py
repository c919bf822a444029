"""Clocks that are a day apart, as processes over mutual TLS: certificates are valid, and deadlines follow no clock."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from connected_scene import connected_scene
from cryptography import x509

from fedveil.runtimes.child_processes import ChildProcesses
from fedveil.site.home import SiteHome

SIZES = {"north": 60, "south": 40}
CLOCK = next((path for path in Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)
"""A library that tells a process another time: `apt install faketime`."""


def elsewhen(days: int) -> dict[str, str]:
    moved = {"LD_PRELOAD": str(CLOCK), "FAKETIME": f"{days:+d}d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    return {**os.environ, **moved}


def test_certificates_are_valid_for_a_clock_that_is_a_day_behind_or_ahead(tmp_path: Path) -> None:
    scene = connected_scene(tmp_path, {}, sizes=SIZES)
    kits = [scene.coordinator.kit, *(home.kit for home in scene.sites.values())]
    for path in (file for kit in kits for file in (kit / "startup").iterdir() if file.suffix in (".crt", ".pem")):
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        now = time.time()
        assert certificate.not_valid_before_utc.timestamp() < now - 86400
        assert certificate.not_valid_after_utc.timestamp() > now + 30 * 86400


@pytest.mark.slow
@pytest.mark.skipif(CLOCK is None, reason="needs faketime")
def test_sites_whose_clocks_are_a_day_behind_and_ahead_take_part(tmp_path: Path) -> None:
    rounds = 3
    scene = connected_scene(tmp_path, {"stop": {"rounds": rounds}}, sizes=SIZES, deadline=240.0)
    with ChildProcesses(tmp_path) as processes:
        for (name, home), days in zip(scene.sites.items(), (-1, 1), strict=True):
            command = ["fedveil.cli", "site", "serve", "--home", str(home.directory)]
            processes.start(name, command, elsewhen(days))
        processes.start("run", ["fedveil.cli", "federation", "run", "--home", str(scene.coordinator.directory)])
        end = time.monotonic() + 300
        while not scene.coordinator.run.result.exists():
            processes.check()
            assert time.monotonic() < end, processes.log("run").read_text()
            time.sleep(0.2)
    for name, days in zip(scene.sites, (-1, 1), strict=True):
        with SiteHome(scene.sites[name].directory).opened_ledger() as ledger:
            assert [paid.round for paid in ledger.paid] == list(range(rounds))
            day = time.strftime("%Y-%m-%d", time.gmtime(time.time() + days * 86400))
            assert ledger.paid[0].time.startswith(day)  # a control: its clock was really another
