"""A site leaves a plan, or gets new keys: what it has spent stays, and nothing is answered that should not be."""

from __future__ import annotations

from pathlib import Path

import pytest
from federation_scene import make_scene
from killing import Asker

from fedveil.core.errors import FedveilError
from fedveil.federation.connecting import LOOPBACK, PORT, invite, invited_at
from fedveil.ledger.ledger_errors import LedgerBusy
from fedveil.runtimes.invitation import read_invitation
from fedveil.site.approval import approve, withdraw
from fedveil.site.connection import add_request, check_invitation, renew
from fedveil.site.home import SiteHome
from fedveil.site.serving import SiteServer
from fedveil.site.site_status import site_status
from fedveil.site.spending import Spending

SIZES = {"north": 60, "south": 40}


def spent(home: SiteHome) -> float:
    with home.opened_ledger() as ledger:
        return Spending(home).for_ever(ledger)


def test_a_plan_that_was_withdrawn_is_not_answered_and_its_cost_stays(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes={"north": 60})
    home = scene.sites["north"]
    with SiteServer(home) as server:
        Asker(scene, "north", server.answer).ask()
    before = spent(home)
    assert before > 0
    assert withdraw(home, scene.plan.hash[:16]) == "study"
    with SiteServer(home) as server:
        refused = Asker(scene, "north", server.answer).ask(round=1)
        assert refused.header["reason"] == "not-approved"
    assert spent(home) == before
    (plan,) = site_status(home).plans
    assert plan.withdrawn is not None


def test_a_plan_can_be_agreed_to_again(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes={"north": 60})
    home = scene.sites["north"]
    withdraw(home, scene.plan.hash)
    approve(home, scene.plan)
    with SiteServer(home) as server:
        assert Asker(scene, "north", server.answer).ask().header["kind"] == "update"


def test_a_withdrawal_names_one_plan_that_is_agreed_to(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes={"north": 60})
    home = scene.sites["north"]
    for wrong in ("", "no-such"):
        with pytest.raises(FedveilError, match="study"):
            withdraw(home, wrong)
    withdraw(home, scene.plan.hash)
    with pytest.raises(FedveilError, match="no plan that is agreed to"):
        withdraw(home, scene.plan.hash)


def test_nothing_is_withdrawn_or_renewed_while_the_site_is_serving(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes={"north": 60})
    home = scene.sites["north"]
    key = home.public_key
    with SiteServer(home):
        with pytest.raises(LedgerBusy):
            withdraw(home, scene.plan.hash)
        with pytest.raises(LedgerBusy):
            renew(home, signature=True)
    assert SiteHome(home.directory).public_key == key


def test_new_keys_end_every_plan_and_keep_the_ledger(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes={"north": 60})
    home = scene.sites["north"]
    with SiteServer(home) as server:
        Asker(scene, "north", server.answer).ask()
    before = spent(home)
    renewed = renew(home, signature=True)
    assert renewed.public_key != home.public_key
    assert spent(renewed) == before
    with pytest.raises(FedveilError, match="another key for the site 'north'"):
        approve(renewed, scene.plan)
    scene.sites["north"] = renewed
    again = scene.another_plan({}, name="after")
    assert again.sites[0].key == renewed.public_key


def test_a_new_key_of_the_connection_needs_an_invitation_and_no_new_plan(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes=SIZES)
    for home in scene.sites.values():
        add_request(home)
    registrations = [home.registration_file for home in scene.sites.values()]
    old = {path.stem: read_invitation(path) for path in invite(scene.coordinator, registrations, LOOPBACK[0], 9001)}
    north = renew(scene.sites["north"], signature=False)
    with pytest.raises(FedveilError, match="key"):
        check_invitation(north, old["north"])
    host, port = invited_at(scene.coordinator)
    paths = invite(scene.coordinator, [north.registration_file], host, port)
    new = {path.stem: read_invitation(path) for path in paths}
    check_invitation(north, new["north"])
    assert new["north"].plan == old["north"].plan
    assert new["south"] == old["south"]


def test_who_signs_with_another_key_is_not_invited_to_the_old_plan(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes={"north": 60})
    north = renew(scene.sites["north"], signature=True)
    with pytest.raises(FedveilError, match="signs with another key than in this plan"):
        invite(scene.coordinator, [north.registration_file], LOOPBACK[0], 9001)
    assert invited_at(scene.coordinator) == (LOOPBACK[0], PORT)  # nobody has been invited yet
