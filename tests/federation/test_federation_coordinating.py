"""A federation in this process: the simulation's bits, missing sites, deaths of the coordinator."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from federation_scene import Scene, answers_of, make_scene, policy
from killing import DiesBefore, Killed
from rich.console import Console
from safetensors.torch import load_file

from fedveil.core.errors import FedveilError
from fedveil.core.types import Unit, View
from fedveil.engine.loop import BelowQuorum
from fedveil.federation.coordinating import run_federation
from fedveil.ledger.lifetime import PaidQuestion
from fedveil.ledger.store import Ledger
from fedveil.report.terminal.run_progress import ConsoleReporter
from fedveil.runs.account import account
from fedveil.runs.files import RunFiles
from fedveil.runs.run import run
from fedveil.runtimes.in_process import InProcess
from fedveil.runtimes.messages import Speaker, write_message
from fedveil.runtimes.transport import Answer
from fedveil.site.serving import AnswerStep

REHEARSAL = policy(rehearsal=True)
NO_NOISE: dict[str, Any] = {"seed": 5, "method": "fedavg", "example": "none"}
CLIENT_NOISE: dict[str, Any] = {
    "method": "fed-sdp-client",
    "example": "none",
    "upload": {"sigma": 2.0, "clip": {"bound": 1.0, "by": "flat"}, "unit": "client"},
}
FOLLOWING = {**CLIENT_NOISE["upload"], "clip": {"bound": {"kind": "quantile", "start": 1.0}, "by": "flat"}}
EACH_ROW = {"sigma": 4.0, "clip": {"bound": 1.0, "by": "flat"}, "noise": "row", "each_row": True}


def same_model(one: Path, other: Path) -> bool:
    mine, its = load_file(one / "model.safetensors"), load_file(other / "model.safetensors")
    return mine.keys() == its.keys() and all(torch.equal(mine[name], its[name]) for name in mine)


def paid_at(scene: Scene) -> dict[str, list[PaidQuestion]]:
    paid = {}
    for name, home in scene.sites.items():
        with home.opened_ledger() as ledger:
            paid[name] = list(ledger.paid)
    return paid


class Watched:
    """A transport that keeps what went over it, and from which single answers can be lost."""

    def __init__(self, inner: InProcess, lost: set[tuple[str, int]] | None = None) -> None:
        self._inner, self._lost, self.rounds = inner, lost or set(), 0
        self.answers: list[tuple[str, bytes]] = []

    def ask(self, questions: dict[str, bytes], deadline: float) -> Iterator[tuple[str, bytes]]:
        for name, answer in self._inner.ask(questions, deadline):
            (asked,) = answers_of([questions[name]])
            if (name, asked.get("round")) in self._lost:
                continue
            self.answers.append((name, answer))
            yield name, answer


# The same bits


@pytest.mark.parametrize(
    "settings",
    [
        NO_NOISE,
        {"seed": 5},
        {"seed": 5, "cohort": {"kind": "fixed", "size": 2}},
        pytest.param({"seed": 5, "cohort": {"kind": "poisson", "rate": 0.6}}, marks=pytest.mark.slow),
        {"seed": 5, **CLIENT_NOISE},
        {"seed": 5, **CLIENT_NOISE, "upload": FOLLOWING},
        {"seed": 5, "method": "fed-sdp", "example": "none"},
        {"seed": 5, "method": "dssgd", "example": "none"},
        {"seed": 5, "local": {"steps": 1, "rate": 0.5}},
        {"seed": 5, "local": {"steps": 1, "rate": 0.5}, "batch": {"kind": "all"}},
        {"seed": 5, "batch": {"kind": "partition", "size": 10}, "example": EACH_ROW},
        {"seed": 5, "personal": {"kind": "interpolated", "alpha": 0.3}},
        {"seed": 5, "personal": {"kind": "interpolated"}, "cohort": {"kind": "fixed", "size": 2}},
        {"seed": 5, "personal": {"kind": "identity"}},
    ],
    ids=["no noise", "records", "fixed", "poisson", "uploads", "quantile", "server", "compressed",
         "one step", "one step of batches that differ", "each row", "own models", "own models of some", "identity"],
)  # fmt: skip
def test_a_federation_ends_in_the_bits_of_the_simulation(tmp_path: Path, settings: dict[str, Any]) -> None:
    scene = make_scene(tmp_path, settings, allowed=REHEARSAL)
    with scene.serving() as transport:
        result = run_federation(scene.coordinator, transport)
    local = run(scene.plan.settings, out=tmp_path / "local", workers=1, dataset=scene.dataset)
    assert same_model(scene.coordinator.run.directory, tmp_path / "local")
    assert (result.accuracy, result.rounds) == (local.accuracy, local.rounds)
    assert [str(cell) for cell in result.guarantees] == [str(cell) for cell in local.guarantees]


def test_without_a_seed_two_federations_differ(tmp_path: Path) -> None:
    scenes = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        scenes.append(make_scene(tmp_path / name, {"stop": {"rounds": 1}}))
        with scenes[-1].serving() as transport:
            run_federation(scenes[-1].coordinator, transport)
    assert not same_model(*(scene.coordinator.run.directory for scene in scenes))


def test_the_coordinators_account_and_the_sites_ledgers_agree(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    with scene.serving() as transport:
        result = run_federation(scene.coordinator, transport)
        assert run_federation(scene.coordinator, transport).rounds == result.rounds == 4  # it is finished
    assert {name: [paid.round for paid in mine] for name, mine in paid_at(scene).items()} == {
        name: [0, 1, 2, 3] for name in scene.sites
    }
    spent = account(scene.coordinator.run.directory).spent
    assert spent is not None
    assert spent.context.population.names == ("north", "south", "west")
    assert 0 < spent.of(Unit.RECORD, View.SERVER).epsilon < 1
    joins = [contact for contact in scene.coordinator.contacts() if contact.round is None]
    assert [(contact.site, contact.problem) for contact in joins] == [(name, "") for name in scene.sites]


# Who does not answer


def test_who_does_not_answer_has_paid_and_is_left_out(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, {"cohort": {"kind": "everyone", "quorum": 2}})
    with scene.serving() as transport:
        result = run_federation(scene.coordinator, Watched(transport, {("west", 1), ("north", 3)}))
    assert result.rounds == 4
    with Ledger(scene.coordinator.run.ledger) as ledger:
        assert [entry.cohort for entry in ledger.rounds()] == [(0, 1, 2)] * 4
        assert [entry.arrived for entry in ledger.rounds()] == [(0, 1, 2), (0, 1), (0, 1, 2), (1, 2)]
        assert {charge.client for charge in ledger.charges()} == {0, 1, 2}
    assert {name: len(mine) for name, mine in paid_at(scene).items()} == {"north": 4, "south": 4, "west": 4}
    missing = [(c.site, c.round, c.problem) for c in scene.coordinator.contacts() if c.problem]
    assert missing == [("west", 1, "silent"), ("north", 3, "silent")]
    assert account(scene.coordinator.run.directory).spent is not None  # and the ledger is one of this plan


def test_a_missing_site_changes_the_sum_and_not_the_divisor(tmp_path: Path) -> None:
    settings = {**NO_NOISE, "stop": {"rounds": 1}, "cohort": {"kind": "everyone", "quorum": 1}}
    scene = make_scene(tmp_path, settings, allowed=REHEARSAL)
    with scene.serving() as transport:
        watched = Watched(transport, {("west", 0)})
        run_federation(scene.coordinator, watched)
    from fedveil.core.parameters import Layout
    from fedveil.runtimes.messages import Speaker, read_message

    network = scene.plan.network()
    layout = Layout.of(network)
    before, total = layout.vector(network), torch.zeros(layout.size, dtype=torch.float64)
    for name, answer in watched.answers[3:]:
        key = bytes.fromhex(scene.sites[name].public_key)
        total += read_message(answer, Speaker.SITE, scene.plan.digest, key).tensors["update"]
    after = layout.join(load_file(scene.coordinator.run.model))
    assert len(watched.answers) == 5
    torch.testing.assert_close(after, before + (total / 3).float())


def test_below_the_quorum_nothing_is_published_and_asking_again_costs_nothing(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, {"cohort": {"kind": "everyone", "quorum": 3}})
    with scene.serving() as transport:
        watched = Watched(transport, {("west", 1)})
        with pytest.raises(BelowQuorum, match="2 of 3 have answered, and the quorum is 3"):
            run_federation(scene.coordinator, watched, tries=2)
        assert scene.coordinator.run.published_rounds() == 1
        before = {name: len(mine) for name, mine in paid_at_open(transport)}
        result = run_federation(scene.coordinator, transport)  # west is back
    assert before == {"north": 2, "south": 2, "west": 2}
    assert result.rounds == 4
    assert {name: len(mine) for name, mine in paid_at(scene).items()} == {"north": 4, "south": 4, "west": 4}
    with Ledger(scene.coordinator.run.ledger) as ledger:
        assert [entry.round for entry in ledger.rounds()] == [0, 1, 2, 3]  # nobody paid twice here either


def paid_at_open(transport: InProcess) -> list[tuple[str, list[PaidQuestion]]]:
    """What sites that are serving have been paid for."""
    return [(name, list(answer.__self__.ledger.paid)) for name, answer in transport.answers.items()]  # type: ignore[attr-defined]


def test_without_a_quorum_all_must_answer(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    with scene.serving() as transport, pytest.raises(FedveilError, match="1 clients are missing"):
        run_federation(scene.coordinator, Watched(transport, {("west", 2)}))
    assert scene.coordinator.run.published_rounds() == 2


def test_too_few_sites_to_begin_with_is_said_with_their_reasons(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, agreed=False)
    with scene.serving() as transport:
        del transport.answers["west"]
        with pytest.raises(FedveilError, match="0 of 3 sites take part") as error:
            run_federation(scene.coordinator, transport)
    assert "nobody at this site has agreed" in str(error.value)
    assert "west: no answer" in str(error.value)
    assert not scene.coordinator.run.directory.exists()
    assert {name: mine for name, mine in paid_at(scene).items() if mine} == {}


def test_the_draw_is_from_registered_sites_not_from_those_that_are_there(tmp_path: Path) -> None:
    """A cohort of two of three: with one away, rounds that draw it close with one answer, and it has paid in them."""
    settings = {"cohort": {"kind": "fixed", "size": 2, "quorum": 1}, "stop": {"rounds": 12}}
    scene = make_scene(tmp_path, settings)
    with scene.serving() as transport:
        del transport.answers["west"]
        run_federation(scene.coordinator, transport)
    with Ledger(scene.coordinator.run.ledger) as ledger:
        drawn = [2 in entry.cohort for entry in ledger.rounds()]
        assert any(drawn)
        assert {2 in entry.arrived for entry in ledger.rounds()} == {False}


# Answers that do not count


@pytest.mark.parametrize("change", ["flip", "cut", "replay", "other site", "nothing", "huge"])
def test_a_bad_answer_spoils_its_own_part_and_not_the_round(tmp_path: Path, change: str) -> None:
    scene = make_scene(tmp_path, {"cohort": {"kind": "everyone", "quorum": 2}})

    with scene.serving() as transport:
        honest, kept = dict(transport.answers), list[bytes]()

        def bad(question: bytes) -> bytes:
            answer = honest["south"](question)
            kept.append(answer)
            (header,) = answers_of([question])
            if header["kind"] == "join":
                return answer
            if change == "replay":
                return kept[1]  # that of round 0, whatever is asked
            return {
                "flip": answer[:-3] + bytes([answer[-3] ^ 64]) + answer[-2:],
                "cut": answer[:-1],
                "other site": honest["north"](question),
                "nothing": b"",
                "huge": answer + bytes(2**21),
            }[change]

        answering: Answer = bad
        transport.answers["south"] = answering
        result = run_federation(scene.coordinator, transport)
    assert result.rounds == 4
    with Ledger(scene.coordinator.run.ledger) as ledger:
        arrived = [entry.arrived for entry in ledger.rounds()]
    assert arrived == [(0, 1, 2) if change == "replay" else (0, 2), *[(0, 2)] * 3]
    assert {c.problem for c in scene.coordinator.contacts() if c.problem} <= {"unreadable", "not-declared"}


# Deaths


class Dying:
    """A transport whose process dies when a site has answered and nobody has heard it yet."""

    def __init__(self, inner: InProcess, dies: bool) -> None:
        self._inner, self._dies = inner, dies

    def ask(self, questions: dict[str, bytes], deadline: float) -> Iterator[tuple[str, bytes]]:
        for name, answer in self._inner.ask(questions, deadline):
            if self._dies and answers_of([questions[name]])[0]["kind"] != "join":
                raise Killed
            yield name, answer


@pytest.mark.parametrize("step", AnswerStep)
@pytest.mark.parametrize("name", ["north", "west"])
def test_a_coordinator_and_a_site_that_die_in_mid_round_go_on_as_if_nothing_happened(
    tmp_path: Path, name: str, step: AnswerStep
) -> None:
    scene = make_scene(tmp_path, {"stop": {"rounds": 2}})
    with scene.serving({name: DiesBefore(step)}) as transport:
        first = Watched(transport)
        with pytest.raises(Killed):
            run_federation(scene.coordinator, first)
    with scene.serving() as transport:
        second = Watched(transport)
        result = run_federation(scene.coordinator, second)
    assert result.rounds == 2
    paid = paid_at(scene)
    assert {site: [one.round for one in mine] for site, mine in paid.items()} == {site: [0, 1] for site in scene.sites}
    sent = first.answers + second.answers
    for site, mine in paid.items():
        updates = [a for n, a in sent if n == site and answers_of([a])[0]["kind"] == "update"]
        assert len(set(updates)) == len(mine)  # one answer for each charge, however often it was sent


def test_a_coordinator_that_dies_after_the_charge_asks_the_same_cohort(tmp_path: Path) -> None:
    settings = {"cohort": {"kind": "fixed", "size": 1}, "stop": {"rounds": 3}}
    scene = make_scene(tmp_path, settings)
    deaths = 0
    for _ in range(40):
        with scene.serving() as transport:
            try:
                run_federation(scene.coordinator, Dying(transport, dies=deaths % 4 != 3))
            except Killed:
                deaths += 1
                continue
            break
    assert deaths >= 3
    with Ledger(scene.coordinator.run.ledger) as ledger:
        assert [entry.attempt for entry in ledger.rounds()] == [0, 0, 0]
    assert sum(len(mine) for mine in paid_at(scene).values()) == 3


def test_a_run_of_a_federation_is_not_gone_on_with_as_a_simulation(tmp_path: Path) -> None:
    from fedveil.runs.run import resume

    scene = make_scene(tmp_path)
    with scene.serving() as transport, pytest.raises(FedveilError):
        run_federation(scene.coordinator, Watched(transport, {("west", 1)}))
    with pytest.raises(FedveilError, match="records are not those"):
        resume(RunFiles(scene.coordinator.run.directory).directory, dataset=scene.dataset)


def test_what_a_site_says_when_it_refuses_can_not_command_a_terminal(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, {"cohort": {"kind": "everyone", "quorum": 2}, "stop": {"rounds": 1}})
    evil = "\x1b[2J\x1b]0;owned\x07 [bold]no[/nothing]\nfedveil: all is well \u202e"
    header = {"kind": "refused", "reason": evil, "text": evil}

    def refuse(question: bytes) -> bytes:
        return write_message(scene.sites["west"].signing_key, Speaker.SITE, scene.plan.digest, header)

    with scene.serving() as transport, io.StringIO() as screen:
        console = Console(file=screen, force_terminal=True, width=200)
        with ConsoleReporter(console) as reporter:
            asked = InProcess({**transport.answers, "west": refuse})
            assert run_federation(scene.coordinator, asked, reporter=reporter).rounds == 1
        shown = screen.getvalue()
    assert "[bold]no[/nothing]" in shown
    assert "\x1b[2J" not in shown
    assert "\x1b]0" not in shown
    noted = [contact for contact in scene.coordinator.contacts() if contact.problem]
    assert noted
    assert all(contact.text.isprintable() and contact.problem.isprintable() for contact in noted)
