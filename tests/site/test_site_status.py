"""How things stand at a site, also while it is serving."""

from __future__ import annotations

from pathlib import Path

import pytest
from federation_scene import make_scene, policy
from killing import Asker

from fedveil.core.errors import FedveilError
from fedveil.ledger import ledger_copy
from fedveil.report.terminal.status_screen import screen_lines
from fedveil.site.home import SiteHome
from fedveil.site.serving import SiteServer
from fedveil.site.site_status import site_facts, site_status


def test_a_site_that_is_serving_tells_what_was_paid_and_what_is_left(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes={"north": 60}, allowed=policy(epsilon=1.0, lifetime=2.0))
    home = scene.sites["north"]
    with SiteServer(home) as server:
        asker = Asker(scene, "north", server.answer)
        for round in range(3):
            asker.ask(round=round)
        asker.ask(round=99)
        serving = site_status(SiteHome(home.directory))
    still = site_status(SiteHome(home.directory))
    assert serving == still
    (plan,) = still.plans
    assert (plan.charged, plan.answered, plan.last_round) == (3, 3, 2)
    assert still.spent > plan.spent > 0  # for ever a plan that was begun counts whole
    assert still.to_dict()["left"] == pytest.approx(2.0 - still.spent)
    text = "\n".join(screen_lines(site_facts(still)))
    assert "Answers paid for, sent" in text
    assert "last problem:" in text
    assert "wrong-question" in text


def test_looking_changes_nothing(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes={"north": 60})
    home = scene.sites["north"]
    before = {path: path.read_bytes() for path in home.directory.iterdir() if path.is_file()}
    site_status(home)
    with SiteServer(home):
        site_status(home)
    assert {path: path.read_bytes() for path in home.directory.iterdir() if path.is_file()} == before
    assert ledger_copy.COPIES > 1


def test_the_log_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedveil.site.home.LARGEST_LOG", 1000)
    home = make_scene(tmp_path, sizes={"north": 60}, agreed=False).sites["north"]
    for number in range(200):
        home.note(f"refused (unreadable): {number}")
    assert home.log.stat().st_size < 1200
    assert home.log.read_text().endswith("199\n")


def test_a_policy_that_allows_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FedveilError, match=r"policy\.epsilon: must be above 0"):
        policy(epsilon=0.0, lifetime=0.0)
