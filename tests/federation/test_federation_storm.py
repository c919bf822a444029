"""Hundreds of kill -9 of real processes over mutual TLS: nothing is released twice or unpaid, and the training ends."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from federation_scene import Scene, policy

pytest.importorskip("nvflare")

from connected_scene import connected_scene
from mortal_party import lines_of

from fedveil.accounting.count_rule import is_count
from fedveil.core.types import Unit, View
from fedveil.ledger.lifetime import PaidQuestion
from fedveil.ledger.store import Ledger
from fedveil.runtimes.child_processes import ChildProcesses
from fedveil.site.home import SiteHome
from fedveil.site.policy import SitePolicy
from fedveil.site.serving import AnswerStep

SUPPORT = Path(__file__).parent.parent / "support"
SIZES = {"north": 60, "south": 40, "west": 60, "east": 40, "upper": 60, "lower": 40}
"""Two sizes: a coordinator that begins again computes what it promises, a second for each size."""


def deaths_of(home: Path) -> list[str]:
    return lines_of(Path(f"{home}.deaths"))


def trained(scene: Scene, at_each_site: int, of_coordinator: int, seconds: float, *more: str) -> list[str]:
    """Train to the end with so many deaths at most; each death as `who: step, how`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])}
    homes = {name: home.directory for name, home in scene.sites.items()}
    with ChildProcesses(scene.root) as processes:
        for name, home in homes.items():
            processes.start(name, ["mortal_party", "site", str(home), str(at_each_site), *more], environment)
        run = ["mortal_party", "coordinator", str(scene.coordinator.directory), str(of_coordinator)]
        processes.start("run", run, environment)
        end = time.monotonic() + seconds
        while not scene.coordinator.run.result.exists():
            assert time.monotonic() < end, f"not ended; rounds published: {scene.coordinator.run.published_rounds()}"
            time.sleep(0.2)
    homes["coordinator"] = scene.coordinator.directory
    return [f"{name} {death}" for name, home in homes.items() for death in deaths_of(home)]


def released_wrongly(scene: Scene) -> list[str]:
    """What left a site unpaid, or beyond what was charged, or that the coordinator's ledger has no charge for."""
    wrong = []
    with Ledger(scene.coordinator.run.ledger) as ledger:
        charged = Counter((charge.client, charge.round) for charge in ledger.charges())
    for client, (name, home) in enumerate(scene.sites.items()):
        paid = paid_by(home)
        known, different = {one.answer for one in paid}, defaultdict[str, set[str]](set)
        for line in lines_of(Path(f"{home.directory}.sent")):
            question, digest = line.split()
            different[question].add(digest)
        for question, digests in different.items():
            charges = sum(one.question == question for one in paid)
            if len(digests) > charges:
                wrong.append(f"{name}: {len(digests)} answers to a question that was charged {charges} times")
            if not digests <= known:
                wrong.append(f"{name}: an answer left that the ledger does not know")
        for round, times in Counter(one.round for one in paid if not is_count(one.declared)).items():
            if times > charged[client, round]:
                wrong.append(f"{name}: paid {times} times for round {round}, {charged[client, round]} by the run")
    return wrong


def paid_by(home: SiteHome) -> tuple[PaidQuestion, ...]:
    with home.opened_ledger() as ledger:
        return ledger.paid


ROUNDS, EVERY = 12, 2
COUNTED = {"evaluation": {"every": EVERY, "sigma": 8.0}}
FLAT = {"bound": 1.0, "by": "flat"}
STORMS: dict[str, tuple[dict[str, Any], SitePolicy]] = {
    "records, counted at the sites": (COUNTED, policy()),
    "models of their own": (
        {
            "method": "prifedsync",
            "example": {"sigma": 4.0, "clip": FLAT},
            "personal": {"kind": "interpolated", "alpha": 0.3},
        },
        policy(),
    ),
    "clients, noised at the sites": (
        {"method": "fed-sdp-client", "example": "none", "upload": {"sigma": 9.0, "clip": FLAT, "unit": "client"}},
        policy(1e3, 1e3, unit=Unit.CLIENT),
    ),
    "clients, noised at the server, counted at the sites": (
        {
            "method": "fed-sdp",
            "example": "none",
            "server": {"sigma": 9.0, "clip": FLAT, "unit": "client"},
            **COUNTED,
        },
        policy(1e3, 1e3, view=View.RELEASED),
    ),
}
AT_EACH_SITE, OF_COORDINATOR = 8, 4
assert len(STORMS) * (len(SIZES) * AT_EACH_SITE + OF_COORDINATOR) >= 200


@pytest.mark.slow
@pytest.mark.parametrize("storm", STORMS)
def test_kills_of_real_processes_release_nothing_twice_or_unpaid(tmp_path: Path, storm: str) -> None:
    """Two hundred and more in all."""
    settings, allowed = STORMS[storm]
    whole = {**settings, "stop": {"rounds": ROUNDS}}
    scene = connected_scene(tmp_path, whole, sizes=SIZES, deadline=600.0, held_out=40, allowed=allowed)
    deaths = trained(scene, AT_EACH_SITE, OF_COORDINATOR, 400)
    # Each party dies as often as it may, unless the training ends before: chance decides.
    assert len(deaths) >= 48, Counter(deaths)
    counted, due = "evaluation" in settings, list(range(EVERY, ROUNDS + 1, EVERY))
    steps = {death.split()[1] for death in deaths}
    assert {*map(str, AnswerStep)} <= steps  # at each step of a site's order
    assert steps & {"heard", "counted"}  # and of the coordinator in mid-round
    assert released_wrongly(scene) == []
    for home in scene.sites.values():
        paid = paid_by(home)
        assert [one.round for one in paid if not is_count(one.declared)] == list(range(ROUNDS))  # one charge a round
        measured = [one.round for one in paid if is_count(one.declared)]
        assert measured == (due if counted else [])
    events = [event for event in scene.coordinator.run.read_events() if event["event"] == "round"]
    figures = [event["round"] + 1 for event in events if "loss" in event]
    assert figures == (due if counted else list(range(1, ROUNDS + 1)))  # no figure got lost
    sent = [lines_of(Path(f"{home.directory}.sent")) for home in scene.sites.values()]
    assert any(len(lines) > len(set(lines)) for lines in sent)  # answers were really sent more than once


@pytest.mark.slow
def test_the_storm_finds_a_site_that_forgets_what_it_has_sent(tmp_path: Path) -> None:
    """A control: sites that neither look into their outbox nor note what has left, and a coordinator that dies."""
    scene = connected_scene(tmp_path, {"stop": {"rounds": 4}}, sizes=SIZES, deadline=600.0)
    trained(scene, 2, 6, 600, "forgetful")
    wrong = released_wrongly(scene)
    assert any("answers to a question that was charged 1 times" in one for one in wrong)
    assert any("does not know" in one for one in wrong)
