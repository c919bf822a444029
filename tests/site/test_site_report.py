"""A site's own report: the numbers of its ledger, and receipts that can be checked elsewhere."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from federation_scene import Scene, make_scene, policy
from killing import Asker, DiesBefore, Killed
from page_facts import Page

from fedveil.core.errors import FedveilError
from fedveil.site.home import SiteHome
from fedveil.site.serving import AnswerStep, SiteServer
from fedveil.site.signed_receipts import read_signed_receipts
from fedveil.site.site_report import site_report
from fedveil.site.site_status import site_status


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three answers, one of them sent twice, one refusal."""
    made = make_scene(tmp_path, sizes={"north": 60}, allowed=policy(epsilon=1.0, lifetime=2.0))
    with SiteServer(made.sites["north"]) as server:
        asker = Asker(made, "north", server.answer)
        for round in (0, 1, 2, 2, 99):
            asker.ask(round=round)
    return made


def home_of(scene: Scene) -> SiteHome:
    return SiteHome(scene.sites["north"].directory)


def test_the_page_has_the_numbers_of_the_ledger(scene: Scene, tmp_path: Path) -> None:
    written = site_report(home_of(scene).directory, tmp_path / "page.html")
    life, status = written.life, site_status(home_of(scene))
    assert (life.sent, len(life.answers), life.refused) == (3, 3, {"wrong-question": 1})
    assert life.lifetime.spent == status.spent > life.course[-1][1]  # a plan that was begun counts whole
    assert life.lifetime.left == pytest.approx(2.0 - status.spent)
    with home_of(scene).opened_ledger() as ledger:
        kept = {path.stat().st_size for path in home_of(scene).outbox.iterdir()}
        assert {paid.size for paid in ledger.paid} == kept
        assert [answer.digest for answer in life.answers] == [paid.answer for paid in ledger.paid]
    text = Page(written.path.read_text(encoding="utf-8")).text
    for part in (
        "guesses right at most",
        "Asked: 3 rounds under 1 plan. Refused: 1 wrong-question.",
        f"Sent: 3 answers, {life.size:,} bytes in all.",
        str(life.answers[0].digest)[:16],
        life.key,
    ):
        assert part in text


def test_a_report_can_be_made_while_the_site_is_serving(scene: Scene, tmp_path: Path) -> None:
    with SiteServer(scene.sites["north"]):
        assert site_report(home_of(scene).directory, tmp_path / "page.html").life.sent == 3


def test_an_answer_that_was_paid_and_never_sent_is_counted_and_named(tmp_path: Path) -> None:
    made = make_scene(tmp_path, sizes={"north": 60})
    with SiteServer(made.sites["north"], DiesBefore(AnswerStep.ANSWERED)) as server, pytest.raises(Killed):
        Asker(made, "north", server.answer).ask()
    written = site_report(home_of(made).directory, tmp_path / "page.html")
    assert (written.life.sent, len(written.life.answers)) == (0, 1)
    assert written.life.lifetime.spent > 0
    assert "Paid for and not sent: 1." in Page(written.path.read_text(encoding="utf-8")).text


def test_a_site_that_was_asked_nothing_says_so(tmp_path: Path) -> None:
    made = make_scene(tmp_path, sizes={"north": 60}, agreed=False)
    written = site_report(home_of(made).directory, tmp_path / "page.html")
    assert "Nothing has left this house" in Page(written.path.read_text(encoding="utf-8")).text


def test_a_rehearsal_is_never_called_private(tmp_path: Path) -> None:
    made = make_scene(tmp_path, {"seed": 3}, sizes={"north": 60}, allowed=policy(rehearsal=True))
    with SiteServer(made.sites["north"]) as server:
        Asker(made, "north", server.answer).ask()
    text = Page(site_report(home_of(made).directory, tmp_path / "page.html").path.read_text(encoding="utf-8")).text
    assert "Not private: this site is a rehearsal" in text


def test_receipts_can_be_checked_by_whoever_has_the_key(scene: Scene, tmp_path: Path) -> None:
    home = home_of(scene)
    written = site_report(home.directory, tmp_path / "page.html")
    read = read_signed_receipts(written.receipts, home.public_key)
    assert (read.site, read.records, read.sent) == ("north", 60, 3)
    (cell,) = [one for one in written.life.guarantees if f"{one.unit} × {one.view}" == str(written.life.cell)]
    assert read.spent == cell.epsilon <= written.life.lifetime.spent  # a plan that was begun is reserved whole
    with pytest.raises(FedveilError, match="not with"):
        read_signed_receipts(written.receipts, "0" * 64)


@pytest.mark.parametrize(("old", "new"), [('"records": 60', '"records": 61'), ("sum_std", "sum_s"), ('": 1,', '": 2,')])
def test_changed_receipts_are_refused(scene: Scene, tmp_path: Path, old: str, new: str) -> None:
    path = site_report(home_of(scene).directory, tmp_path / "page.html").receipts
    table = json.loads(path.read_text())
    assert old in table["statement"]
    table["statement"] = table["statement"].replace(old, new)
    path.write_text(json.dumps(table))
    with pytest.raises(FedveilError):
        read_signed_receipts(path)


def test_noise_that_is_stated_larger_than_signed_is_noticed(scene: Scene, tmp_path: Path) -> None:
    path = site_report(home_of(scene).directory, tmp_path / "page.html").receipts
    table = json.loads(path.read_text())
    said = json.loads(table["statement"])
    said["declarations"][0]["sum_std"] *= 10
    path.write_text(json.dumps({**table, "statement": json.dumps(said, sort_keys=True)}))
    with pytest.raises(FedveilError, match="something was changed"):
        read_signed_receipts(path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"statement": "{}", "signature": ""}', '{"statement": 3}'])
def test_what_is_no_file_of_receipts_is_said_in_one_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "receipts.json"
    path.write_text(content)
    with pytest.raises(FedveilError, match="not a site's receipts"):
        read_signed_receipts(path)


def test_no_number_of_the_page_is_better_than_the_policy_says(scene: Scene, tmp_path: Path) -> None:
    life = site_report(home_of(scene).directory, tmp_path / "page.html").life
    assert all(cell.epsilon > 0 for cell in life.guarantees)
    assert math.isinf(next(cell for cell in life.guarantees if cell.name == "record × on_device").epsilon)
