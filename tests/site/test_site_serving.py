"""What a site answers, what it pays, and what it never does, whatever it is asked and wherever it dies."""

from __future__ import annotations

import hashlib
import math
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from federation_scene import Scene, make_scene, policy
from killing import Asker, DiesBefore, Killed

from fedveil.accounting.alone import bounds_of
from fedveil.accounting.compose import certify, composition
from fedveil.core.errors import FedveilError
from fedveil.core.signing import SigningKey
from fedveil.core.types import Unit, View
from fedveil.ledger.lifetime import LifetimeLedger
from fedveil.runtimes.messages import PROTOCOL
from fedveil.site import serving
from fedveil.site.home import SiteHome
from fedveil.site.outbox import Outbox
from fedveil.site.refusals import RefusalKind, Refused
from fedveil.site.serving import AnswerStep, SiteServer
from fedveil.site.signed_receipts import read_signed_receipts, sign_receipts
from fedveil.site.spending import Spending

ONE = {"north": 60}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return make_scene(tmp_path, sizes=ONE)


@pytest.fixture
def server(scene: Scene) -> Iterator[SiteServer]:
    with SiteServer(scene.sites["north"]) as serving_site:
        yield serving_site


@pytest.fixture
def asker(scene: Scene, server: SiteServer) -> Asker:
    return Asker(scene, "north", server.answer)


def refused(message: Any, kind: RefusalKind) -> str:
    assert message.header["kind"] == "refused", message.header
    assert message.header["reason"] == kind
    return str(message.header["text"])


# Paying


def test_an_answer_is_charged_once_and_given_again_for_nothing(server: SiteServer, asker: Asker) -> None:
    first = asker.raw(round=1)
    assert [asker.raw(round=1) for _ in range(3)] == [first] * 3
    (paid,) = server.ledger.paid
    assert (paid.round, paid.plan, paid.answer) == (1, server.ledger.paid[0].plan, hashlib.sha256(first).hexdigest())
    assert [one.place for one in paid.declared] == ["example"]


def test_the_ledger_has_the_charge_before_the_records_are_touched(scene: Scene) -> None:
    home, seen = scene.sites["north"], []

    def look(step: AnswerStep) -> None:
        paid = server.ledger.paid
        kept = [] if not paid else [Outbox(home.outbox).get(paid[-1])]
        seen.append((step, len(paid), [one.answer is not None for one in paid], [one is not None for one in kept]))

    with SiteServer(home, look) as server:
        Asker(scene, "north", server.answer).ask()
    assert seen == [
        (AnswerStep.CHARGE, 0, [], []),
        (AnswerStep.COMPUTE, 1, [False], [False]),
        (AnswerStep.OUTBOX, 1, [False], [False]),
        (AnswerStep.ANSWERED, 1, [False], [True]),
        (AnswerStep.SEND, 1, [True], [True]),
    ]


def test_a_shifted_model_is_another_question_whose_noise_does_not_cancel(server: SiteServer, asker: Asker) -> None:
    first, second = asker.ask().tensors["update"], asker.ask(parameters=asker.shifted(1e-6)).tensors["update"]
    assert len(server.ledger.paid) == 2
    assert float((first - second).norm()) > 0.5 * float(first.norm())


def test_with_one_key_for_all_questions_the_noise_would_cancel(tmp_path: Path) -> None:
    """A control for the test above: a rehearsal with a seed is that site, and there the difference vanishes."""
    scene = make_scene(tmp_path, {"seed": 3}, sizes=ONE, allowed=policy(rehearsal=True))
    with SiteServer(scene.sites["north"]) as server:
        asker = Asker(scene, "north", server.answer)
        first, second = asker.ask().tensors["update"], asker.ask(parameters=asker.shifted(1e-6)).tensors["update"]
    assert float((first - second).norm()) < 1e-3 * float(first.norm())


def test_a_coordinator_that_asks_again_and_again_pays_each_time_until_the_budget_refuses(
    tmp_path: Path,
) -> None:
    scene = make_scene(tmp_path, sizes=ONE, allowed=policy(epsilon=0.9))
    with SiteServer(scene.sites["north"]) as server:
        asker = Asker(scene, "north", server.answer)
        answers = []
        for k in range(60):
            answer = asker.ask(round=0, parameters=asker.shifted(k * 1e-6))
            if answer.header["kind"] == "refused":
                break
            answers.append(answer.tensors["update"])
        assert "0.9" in refused(answer, RefusalKind.OVER_BUDGET)
        declared = [paid.declared for paid in server.ledger.paid]
        assert 5 < len(answers) == len(declared) < 60
        spent = bounds_of(declared, 60, Unit.RECORD, View.SERVER).epsilon(1e-3)
        one_more = bounds_of([*declared, declared[0]], 60, Unit.RECORD, View.SERVER).epsilon(1e-3)
        assert spent <= 0.9 < one_more
        distances = torch.cdist(torch.stack(answers), torch.stack(answers)) + 1e9 * torch.eye(len(answers))
        assert float(distances.min()) > 0.5 * float(answers[0].norm())  # no two share their noise
        last = asker.shifted((len(answers) - 1) * 1e-6)
        assert asker.ask(round=0, parameters=last).header["kind"] == "update"  # what was paid for is still given


def test_all_plans_together_stay_within_the_lifetime(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes=ONE, allowed=policy(epsilon=0.6, lifetime=0.65))
    other = scene.another_plan({"local": {"steps": 1, "rate": 0.3}})
    with SiteServer(scene.sites["north"]) as server:
        asker = Asker(scene, "north", server.answer)
        assert {asker.ask(round=round).header["kind"] for round in range(4)} == {"update"}
        scene.plan = other
        further = Asker(scene, "north", server.answer)
        kinds = [further.ask(round=0, parameters=further.shifted(k)) for k in range(40)]
        over = [answer for answer in kinds if answer.header["kind"] == "refused"]
        assert over
        assert len(over) < len(kinds)
        refused(over[0], RefusalKind.OVER_LIFETIME)
        spending = Spending(scene.sites["north"])
        parts = [bounds.bounds[0][1] for bounds in map(spending.own, (paid.declared for paid in server.ledger.paid))]
        plain = certify(composition(*(term for one in parts for term in one)), 1e-3).epsilon
        assert plain <= spending.for_ever(server.ledger) <= 0.65  # later plans count as Gaussians that cover them


def test_a_limit_of_rounds_is_kept_by_the_site_itself(tmp_path: Path) -> None:
    settings = {"cohort": {"kind": "fixed", "size": 1, "most": 2}}
    scene = make_scene(tmp_path, settings, sizes=ONE)
    with SiteServer(scene.sites["north"]) as server:
        asker = Asker(scene, "north", server.answer)
        kinds = [asker.ask(round=round).header["kind"] for round in (0, 2, 0, 3)]
        assert kinds == ["update", "update", "update", "refused"]


# Dying


@pytest.mark.parametrize("step", AnswerStep)
def test_after_a_death_at_any_step_nothing_is_released_twice_or_unpaid(scene: Scene, step: AnswerStep) -> None:
    home = scene.sites["north"]
    with SiteServer(home, DiesBefore(step)) as server, pytest.raises(Killed):
        Asker(scene, "north", server.answer).ask()
    with SiteServer(home) as server:
        before = len(server.ledger.paid)
        assert before == (0 if step is AnswerStep.CHARGE else 1)
        asker = Asker(scene, "north", server.answer)
        first = asker.raw()
        assert asker.raw() == first
        (paid,) = server.ledger.paid  # the charge of the first attempt, and no other
        assert paid.answer == hashlib.sha256(first).hexdigest()


def test_bytes_that_may_have_left_are_sent_again_or_paid_for_again(scene: Scene) -> None:
    """The outbox was emptied (a cleaner, a restored disk): what is computed now is a second release."""
    home = scene.sites["north"]
    with SiteServer(home) as server:
        asker = Asker(scene, "north", server.answer)
        first = asker.raw()
        for path in home.outbox.iterdir():
            path.unlink()
        second = asker.raw()
        assert second != first
        assert len(server.ledger.paid) == 2
        assert asker.raw() == second


def test_a_damaged_answer_is_not_sent(scene: Scene) -> None:
    home = scene.sites["north"]
    with SiteServer(home) as server:
        asker = Asker(scene, "north", server.answer)
        first = asker.raw()
        (path,) = home.outbox.iterdir()
        path.write_bytes(first[:-1] + bytes([first[-1] ^ 1]))
        assert asker.ask().header["kind"] == "update"
        assert len(server.ledger.paid) == 2


def test_an_answer_that_the_disk_damaged_before_it_left_is_computed_again_for_the_same_charge(scene: Scene) -> None:
    home = scene.sites["north"]
    with SiteServer(home, DiesBefore(AnswerStep.ANSWERED)) as server, pytest.raises(Killed):
        Asker(scene, "north", server.answer).ask()
    (path,) = home.outbox.iterdir()
    path.write_bytes(path.read_bytes()[:-100])
    with SiteServer(home) as server:
        asker = Asker(scene, "north", server.answer)
        answer = asker.raw()
        assert asker.ask().header["kind"] == "update"
        (paid,) = server.ledger.paid
        assert paid.answer == hashlib.sha256(answer).hexdigest()


def test_what_a_killed_site_left_half_written_is_removed(scene: Scene) -> None:
    home = scene.sites["north"]
    (home.outbox / ".00000000-abc.answer.77.part").write_bytes(b"half")
    with SiteServer(home) as server:
        Asker(scene, "north", server.answer).ask()
    assert [path.suffix for path in home.outbox.iterdir()] == [".answer"]


def test_a_site_that_ignored_its_outbox_would_give_two_answers_to_one_charge(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A control: the invariant of the tests above can fail. The ledger itself stops such a site."""
    monkeypatch.setattr(Outbox, "get", lambda self, paid: None)
    monkeypatch.setattr(serving, "answer_digest", lambda answer: "the same")
    sent = []
    with SiteServer(scene.sites["north"], DiesBefore(AnswerStep.SEND)) as server:
        asker = Asker(scene, "north", server.answer)
        with pytest.raises(Killed):
            asker.raw()
        sent = [asker.raw() for _ in range(2)]
        assert len(set(sent)) == 2  # two different answers to one question …
        assert len(server.ledger.paid) == 3  # … each of which was charged, since the ledger knows the first one left


def test_old_answers_leave_the_outbox_and_cost_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "KEPT_ANSWERS", 2)
    with SiteServer(scene.sites["north"]) as server:
        asker = Asker(scene, "north", server.answer)
        for k in range(6):
            asker.ask(parameters=asker.shifted(k))
        assert len(list(scene.sites["north"].outbox.iterdir())) == 2
        asker.ask(parameters=asker.shifted(5))
        assert len(server.ledger.paid) == 6
        asker.ask(parameters=asker.shifted(0))
        assert len(server.ledger.paid) == 7


@pytest.mark.parametrize("full", ["fedveil.ledger.chained_file.write_anchor", "fedveil.site.outbox.write_whole"])
def test_a_full_disk_is_a_refusal_and_nothing_is_released_unpaid(
    scene: Scene, full: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*arguments: Any, **more: Any) -> None:
        raise FedveilError("No space left on device")

    with SiteServer(scene.sites["north"]) as server:
        asker = Asker(scene, "north", server.answer)
        with monkeypatch.context() as patch:
            patch.setattr(full, no_room)
            refused(asker.ask(), RefusalKind.FAILED)
        first = asker.raw()
        assert asker.raw() == first
        (paid,) = server.ledger.paid
        assert paid.answer == hashlib.sha256(first).hexdigest()


@pytest.mark.parametrize("room", [0, 100, 1000, 2000])
def test_a_disk_that_is_really_full_is_a_refusal_and_nothing_is_released_unpaid(scene: Scene, room: int) -> None:
    """The kernel lets no file grow beyond what it has, or only by so many bytes: writes fail wherever they are."""
    home = scene.sites["north"]
    with SiteServer(home) as server:
        asker = Asker(scene, "north", server.answer)
        asker.ask(round=1)
        largest = max(path.stat().st_size for path in home.directory.rglob("*") if path.is_file())
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room and largest - 4000 + room, hard))
        try:
            full = asker.ask()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        if room == 0:
            refused(full, RefusalKind.FAILED)
        first = asker.raw()
        assert asker.raw() == first
        paid = [one for one in server.ledger.paid if one.round == 0]
        assert len(paid) == 1
        assert paid[0].answer == hashlib.sha256(first).hexdigest()
    with SiteServer(home) as server:  # and the ledger is whole
        assert Asker(scene, "north", server.answer).raw() == first


def test_what_a_seeded_rehearsal_answered_is_never_taken_for_private(tmp_path: Path) -> None:
    """Its noise can be taken off. So a site that stops rehearsing with these records has nothing left."""
    settings = {"seed": 3, "evaluation": {"every": 1, "sigma": 8.0}}
    scene = make_scene(tmp_path, settings, sizes={"north": 60}, allowed=policy(rehearsal=True), held_out=40)
    home = scene.sites["north"]
    with SiteServer(home) as server:
        asker = Asker(scene, "north", server.answer)
        assert asker.ask(0).header["kind"] == "update"
        assert asker.ask(1, kind="evaluate").header["kind"] == "counts"
    home.settings_file.write_text(home.settings_file.read_text().replace("rehearsal = true", "rehearsal = false"))
    earnest = SiteHome(home.directory)
    assert not earnest.policy.rehearsal
    with earnest.opened_ledger() as ledger:
        assert Spending(earnest).for_ever(ledger) == math.inf
        assert read_signed_receipts(write_receipts(tmp_path, earnest, ledger)).spent == math.inf
    scene.sites["north"] = earnest
    with pytest.raises(Refused) as refusal:
        scene.another_plan({})
    assert refusal.value.kind is RefusalKind.OVER_LIFETIME


def write_receipts(folder: Path, home: SiteHome, ledger: LifetimeLedger) -> Path:
    path = folder / "receipts.json"
    path.write_bytes(sign_receipts(home, ledger))
    return path


# A ledger that was set back


def test_a_ledger_that_was_set_back_is_noticed_by_the_mark_that_the_coordinator_holds(
    scene: Scene, tmp_path: Path
) -> None:
    home, files = scene.sites["north"], ("ledger.sqlite", "ledger.head")
    (tmp_path / "backup").mkdir()
    for name in files:
        shutil.copy(home.directory / name, tmp_path / "backup" / name)
    with SiteServer(home) as server:
        asker = Asker(scene, "north", server.answer)
        asker.ask(round=0)
        assert asker.mark is not None
    for name in files:
        shutil.copy(tmp_path / "backup" / name, home.directory / name)
    with SiteServer(home) as server:
        again = Asker(scene, "north", server.answer)
        refused(again.ask(round=1), RefusalKind.LEDGER_SET_BACK)  # its outbox knows more than its ledger
        for path in home.outbox.iterdir():
            path.unlink()
        again.mark = asker.mark
        refused(again.ask(round=1), RefusalKind.LEDGER_SET_BACK)
        assert server.ledger.paid == ()


def test_a_ledger_that_lost_only_the_last_answer_is_noticed_too(scene: Scene, tmp_path: Path) -> None:
    """It has the charge. Without the mark the site would take the answer for one that never left, and give another."""
    home, files = scene.sites["north"], ("ledger.sqlite", "ledger.head")

    def copy_before_the_answer(step: AnswerStep) -> None:
        for name in files if step is AnswerStep.ANSWERED else ():
            shutil.copy(home.directory / name, tmp_path / name)

    with SiteServer(home, copy_before_the_answer) as server:
        asker = Asker(scene, "north", server.answer)
        asker.ask(round=0)
    for name in files:
        shutil.copy(tmp_path / name, home.directory / name)
    for path in home.outbox.iterdir():
        path.unlink()
    with SiteServer(home) as server:
        again = Asker(scene, "north", server.answer)
        again.mark = asker.mark
        assert [paid.answer for paid in server.ledger.paid] == [None]
        refused(again.ask(round=0), RefusalKind.LEDGER_SET_BACK)


def test_a_mark_of_somebody_elses_is_not_taken_for_ones_own(asker: Asker) -> None:
    for mark in ("", "00", "ab" * 96, "zz", 5, ["x"]):
        refused(asker.ask(mark=mark), RefusalKind.WRONG_QUESTION)


def test_marks_do_not_tell_how_long_the_ledger_is(asker: Asker) -> None:
    marks = [asker.ask(round=round).header["mark"] for round in range(3)]
    assert len(set(marks)) == 3
    assert {len(mark) for mark in marks} == {256}


# What leaves


def test_nothing_leaves_but_the_noisy_update_and_its_receipts(asker: Asker) -> None:
    answer = asker.ask()
    assert set(answer.header) == {"kind", "question", "round", "receipts", "site", "mark", "tensors"}
    assert set(answer.tensors) == {"update"}
    (receipt,) = answer.header["receipts"]
    assert set(receipt) == {"round", "client", "did", "confirmed", "draws"}


def test_what_goes_wrong_inside_is_told_to_the_sites_own_people_only(
    scene: Scene, server: SiteServer, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any, **more: Any) -> Any:
        raise FedveilError("patient 4711 has age 203")

    monkeypatch.setattr("fedveil.site.site_work.local_work", broken)
    answer = asker.ask()
    assert "4711" not in refused(answer, RefusalKind.FAILED)
    assert "4711" in scene.sites["north"].log.read_text()
    assert len(server.ledger.paid) == 1  # what was charged stays charged


def test_noise_that_is_not_confirmed_does_not_leave(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedveil.engine.witness.Witness.confirmed", lambda self, owners: [False for _ in owners])
    refused(asker.ask(), RefusalKind.FAILED)


# Questions that the plan does not have


@pytest.mark.parametrize("round", [-1, 4, 1.0, True, None, "0", 10**30, [0]])
def test_a_round_that_the_plan_does_not_have_is_refused_and_costs_nothing(
    server: SiteServer, asker: Asker, round: Any
) -> None:
    refused(asker.ask(round=round), RefusalKind.WRONG_QUESTION)
    assert server.ledger.paid == ()


@pytest.mark.parametrize("bound", [1.0, 0.0, "1", [1.0], 10**400])
def test_a_bound_that_the_plan_does_not_have_is_refused(server: SiteServer, asker: Asker, bound: Any) -> None:
    refused(asker.ask(bound=bound), RefusalKind.WRONG_QUESTION)
    assert server.ledger.paid == ()


def test_a_model_of_another_shape_or_not_finite_is_refused(server: SiteServer, asker: Asker) -> None:
    broken = asker.start.clone()
    broken[3] = float("nan")
    for parameters in (asker.start[:-1], asker.start.double(), asker.start.unsqueeze(0), broken):
        refused(asker.ask(parameters=parameters), RefusalKind.WRONG_QUESTION)
    refused(asker.ask(kind="statistics"), RefusalKind.WRONG_QUESTION)
    assert server.ledger.paid == ()


def test_a_question_of_somebody_else_than_the_plans_coordinator_is_not_answered(
    scene: Scene, server: SiteServer, tmp_path: Path
) -> None:
    scene.key = SigningKey.generate()
    refused(Asker(scene, "north", server.answer).ask(), RefusalKind.UNREADABLE)
    assert server.ledger.paid == ()


def test_a_plan_that_nobody_agreed_to_is_not_worked_on(scene: Scene, server: SiteServer) -> None:
    scene.plan = scene.another_plan({"stop": {"rounds": 3}}, name="study", agreed=False)  # under the same name
    text = refused(Asker(scene, "north", server.answer).ask(), RefusalKind.NOT_APPROVED)
    assert scene.plan.hash[:16] in text
    assert server.ledger.paid == ()


def test_a_message_of_another_protocol_says_which(asker: Asker, server: SiteServer, scene: Scene) -> None:
    data = bytearray(asker.question())
    data[3] = PROTOCOL + 1
    from federation_scene import answers_of

    (header,) = answers_of([server.answer(bytes(data))])
    assert f"protocol {PROTOCOL + 1}" in header["text"]


def test_only_one_process_serves_a_site(scene: Scene, server: SiteServer) -> None:
    with pytest.raises(FedveilError, match="another process of this site holds its ledger"):
        LifetimeLedger(scene.sites["north"].ledger_file)
