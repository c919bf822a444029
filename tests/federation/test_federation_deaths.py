"""Random deaths of sites and of the coordinator: nothing is released twice or unpaid, and the training ends."""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from federation_scene import Scene, answers_of, make_scene
from killing import Killed

from fedveil.federation.coordinating import run_federation
from fedveil.ledger.lifetime import LifetimeLedger
from fedveil.ledger.store import Ledger
from fedveil.runtimes.in_process import InProcess
from fedveil.site.outbox import Outbox
from fedveil.site.serving import AnswerStep


class Deaths:
    """Decides by chance who dies where, so many times in all; keeps what was sent."""

    def __init__(self, number: int, seed: int) -> None:
        self.left, self._chance = number, random.Random(seed)
        self.sent: dict[str, list[tuple[str, str]]] = defaultdict(list)

    def strike(self, chance: float) -> None:
        if self.left and self._chance.random() < chance:
            self.left -= 1
            raise Killed

    def before(self, step: AnswerStep) -> None:
        self.strike(0.15)

    def carried(self, inner: InProcess) -> Carried:
        return Carried(inner, self)


class Carried:
    """A transport that notes what sites release, and in which the coordinator dies before it hears an answer."""

    def __init__(self, inner: InProcess, deaths: Deaths) -> None:
        self._inner, self._deaths = inner, deaths

    def ask(self, questions: dict[str, bytes], deadline: float) -> Iterator[tuple[str, bytes]]:
        for name, answer in self._inner.ask(questions, deadline):
            (header,) = answers_of([answer])
            if header["kind"] == "update":
                self._deaths.sent[name].append((header["question"], hashlib.sha256(answer).hexdigest()))
                self._deaths.strike(0.5)
            yield name, answer


def trained(scene: Scene, deaths: Deaths) -> int:
    """Train to the end, begun again after every death; how many there were."""
    times = 0
    while True:
        try:
            with scene.serving(dict.fromkeys(scene.sites, deaths.before)) as transport:
                run_federation(scene.coordinator, deaths.carried(transport))
            return times
        except Killed:
            times += 1


def released_wrongly(scene: Scene, deaths: Deaths) -> list[str]:
    """What left a site that its ledger does not have, or beyond what was charged."""
    wrong = []
    for name, home in scene.sites.items():
        with home.opened_ledger() as ledger:
            paid = ledger.paid
        answers = {one.answer for one in paid}
        for question in {question for question, _ in deaths.sent[name]}:
            different = {digest for asked, digest in deaths.sent[name] if asked == question}
            charges = sum(one.question == question for one in paid)
            if len(different) > charges:
                wrong.append(f"{name}: {len(different)} answers to a question that was charged {charges} times")
            if not different <= answers:
                wrong.append(f"{name}: an answer left that the ledger does not know")
    return wrong


def check_deaths(tmp_path: Path, number: int, seed: int) -> None:
    """At most so many deaths; a training that is lucky ends before."""
    scene = make_scene(tmp_path, {"stop": {"rounds": 3}})
    deaths = Deaths(number, seed)
    times = trained(scene, deaths)
    assert times == number - deaths.left
    assert times >= 5
    assert released_wrongly(scene, deaths) == []
    again = [name for name, sent in deaths.sent.items() if len(set(sent)) < len(sent)]
    assert again  # answers were really sent more than once
    for name, home in scene.sites.items():
        with home.opened_ledger() as ledger:
            assert [one.round for one in ledger.paid] == [0, 1, 2], name  # one charge a round, however often it died
    with Ledger(scene.coordinator.run.ledger) as ledger:
        assert [(entry.round, entry.executed) for entry in ledger.rounds()] == [(0, True), (1, True), (2, True)]


def test_a_dozen_deaths_release_nothing_twice_or_unpaid(tmp_path: Path) -> None:
    check_deaths(tmp_path, 12, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_hundreds_of_deaths_release_nothing_twice_or_unpaid(tmp_path: Path, seed: int) -> None:
    check_deaths(tmp_path, 60, seed)


def test_a_site_without_an_outbox_and_without_noting_answers_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A control: the checks above see what goes wrong at a site that forgets what it sent and looks at no marks."""
    monkeypatch.setattr(Outbox, "get", lambda self, paid: None)
    monkeypatch.setattr(LifetimeLedger, "answered", lambda *arguments: None)
    monkeypatch.setattr(LifetimeLedger, "keeps", lambda *arguments: True)
    scene, deaths = make_scene(tmp_path, {"stop": {"rounds": 3}}), Deaths(12, seed=1)
    trained(scene, deaths)
    wrong = released_wrongly(scene, deaths)
    assert any("answers to a question that was charged 1 times" in one for one in wrong)
    assert any("does not know" in one for one in wrong)


def test_charges_that_are_lost_are_caught(tmp_path: Path) -> None:
    """A control: ledgers as they would be had the charges not been on the disk when the answers left."""
    scene, deaths = make_scene(tmp_path, {"stop": {"rounds": 1}}), Deaths(0, seed=1)
    before = {path: path.read_bytes() for home in scene.sites.values() for path in home.directory.glob("ledger.*")}
    trained(scene, deaths)
    for path, content in before.items():
        path.write_bytes(content)
    assert any("charged 0 times" in one for one in released_wrongly(scene, deaths))
