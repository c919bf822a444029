"""A federation whose parties are processes that talk over mutual TLS: invitations, the simulation's bits, deaths."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from federation_scene import Scene, make_scene, policy
from safetensors.torch import load_file

pytest.importorskip("nvflare")

from connected_scene import connected_scene, invited

from fedveil.cli import cli
from fedveil.core.errors import FedveilError
from fedveil.federation.connecting import LOOPBACK, PORT, invite, invited_at
from fedveil.runs.run import run
from fedveil.runtimes.child_processes import ChildProcesses
from fedveil.runtimes.invitation import read_invitation
from fedveil.site.connection import add_request, check_invitation

NO_NOISE: dict[str, Any] = {"seed": 5, "method": "fedavg", "example": "none"}
SIZES = {"north": 60, "south": 40}
START = 120.0


def serve(processes: ChildProcesses, scene: Scene, name: str) -> None:
    processes.start(name, ["fedveil.cli", "site", "serve", "--home", str(scene.sites[name].directory)])


def coordinate(processes: ChildProcesses, scene: Scene) -> None:
    processes.start("run", ["fedveil.cli", "federation", "run", "--home", str(scene.coordinator.directory), "--json"])


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + START
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_an_invitation_has_no_secret_and_is_for_one_site(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes=SIZES)
    invitations = invited(scene)
    for name, invitation in invitations.items():
        check_invitation(scene.sites[name], invitation)
        assert b"PRIVATE" not in invitation.text
        assert "PRIVATE" not in scene.sites[name].registration_file.read_text()
        assert json.loads(invitation.plan) == json.loads(scene.plan.content)
    with pytest.raises(FedveilError, match="for 'south', and this is 'north'"):
        check_invitation(scene.sites["north"], invitations["south"])
    (tmp_path / "again").mkdir()
    other = invited(make_scene(tmp_path / "again", sizes=SIZES))
    with pytest.raises(FedveilError, match="another key"):
        check_invitation(scene.sites["north"], other["north"])


def test_a_plan_without_invitations_can_be_invited_to(tmp_path: Path) -> None:
    """As a coordinator leaves it that is killed between the two."""
    scene = make_scene(tmp_path, sizes=SIZES)
    for home in scene.sites.values():
        add_request(home)
    files = [str(home.registration_file) for home in scene.sites.values()]
    with pytest.raises(FedveilError, match="no registration of south"):
        invite(scene.coordinator, [Path(files[0])], *invited_at(scene.coordinator))
    done = CliRunner().invoke(cli, ["federation", "invite", *files, "--home", str(scene.coordinator.directory)])
    assert done.exit_code == 0, done.output
    assert invited_at(scene.coordinator) == (LOOPBACK[0], PORT)
    for host in ("", "''", "a b", "http://a", "a:1", "-a", "a" * 300):
        with pytest.raises(FedveilError, match="not a machine's name"):
            invite(scene.coordinator, [], host, PORT)


def test_one_process_at_a_time_works_on_a_federation(tmp_path: Path) -> None:
    home = make_scene(tmp_path, sizes=SIZES).coordinator
    with home.held():
        with pytest.raises(FedveilError, match="another process is working on this federation"), home.held():
            pass
        for command in ("run", "invite"):
            done = CliRunner().invoke(cli, ["federation", command, "--home", str(home.directory)])
            assert "another process is working on this federation" in str(done.exception)
    with home.held():
        pass


def test_who_did_not_ask_for_a_certificate_is_not_invited(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes=SIZES)
    registrations = [home.registration_file for home in scene.sites.values()]
    with pytest.raises(FedveilError, match="no request for a certificate"):
        invite(scene.coordinator, registrations, LOOPBACK[0], 1)


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"invitation": 1}', b'{"invitation": 2}', b"\xff", b"[" * 100_000])
def test_what_is_no_invitation_is_said(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "invitation.json").write_bytes(damage)
    with pytest.raises(FedveilError, match="not an invitation"):
        read_invitation(tmp_path / "invitation.json")


@pytest.mark.slow
def test_killed_processes_end_in_the_bits_of_a_simulation_that_nobody_killed(tmp_path: Path) -> None:
    """A site is killed in mid-run and comes back, then the coordinator with its NVFlare; every round is paid once."""
    rounds = 12
    scene = connected_scene(
        tmp_path,
        {**NO_NOISE, "stop": {"rounds": rounds}},
        sizes=SIZES,
        deadline=START,
        allowed=policy(rehearsal=True),
    )

    def answered() -> int:
        return len([contact for contact in scene.coordinator.contacts() if contact.round is not None])

    with ChildProcesses(tmp_path) as processes:
        for name in scene.sites:
            serve(processes, scene, name)
        coordinate(processes, scene)
        wait_until(lambda: answered() >= 3)
        processes.kill("north")
        serve(processes, scene, "north")
        seen = answered()
        wait_until(lambda: answered() >= seen + 4)
        processes.kill("run")
        assert not scene.coordinator.run.result.exists(), "killed too late to show anything"
        coordinate(processes, scene)
        wait_until(lambda: scene.coordinator.run.result.exists())
    run(scene.plan.settings, out=tmp_path / "local", workers=1, dataset=scene.dataset)
    ours, theirs = (
        load_file(folder / "model.safetensors") for folder in (scene.coordinator.run.directory, tmp_path / "local")
    )
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    for home in scene.sites.values():
        with home.opened_ledger() as ledger:
            assert [paid.round for paid in ledger.paid] == list(range(rounds))


@pytest.mark.slow
@pytest.mark.skipif("FEDVEIL_DATA" not in os.environ, reason="needs the files of the four hospitals")
def test_the_demonstration_ends_with_a_model_every_sites_epsilon_and_a_report(tmp_path: Path) -> None:
    with ChildProcesses(tmp_path) as processes:
        processes.start("demo", ["fedveil.cli", "federation", "demo", "--out", str(tmp_path / "demo"), "--json"])
        processes.wait_for_line("demo", '"report"', 300)
        ended = json.loads(processes.log("demo").read_text().splitlines()[-1])
    assert ended["accuracy"] > 0.7
    assert set(ended["spent"]) == {"cleveland", "hungarian", "switzerland", "va"}
    assert all(0 < epsilon < 10 for epsilon in ended["spent"].values())
    assert Path(ended["model"]).is_file()
    assert Path(ended["report"]).is_file()
