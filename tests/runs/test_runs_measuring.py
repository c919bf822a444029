"""Models that real sites measure: published before they are sent, asked for again after a death, paid for once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from federation_scene import Scene, answers_of, make_scene, policy
from killing import Killed

from fedveil.core.types import View
from fedveil.federation.coordinating import run_federation
from fedveil.runtimes.in_process import InProcess

COUNTED: dict[str, Any] = {"evaluation": {"every": 1, "sigma": 8.0}, "stop": {"rounds": 3}}
SERVER_NOISE = {
    "method": "fed-sdp",
    "example": "none",
    "server": {"sigma": 4.0, "clip": {"bound": 1.0, "by": "flat"}, "unit": "client"},
}


class DyingAsker:
    """A transport whose coordinator dies when it has so many counts; it keeps which models were to be measured."""

    def __init__(self, inner: InProcess, deaths: list[int]) -> None:
        self._inner, self._deaths = inner, deaths
        self.measured: dict[int, set[str]] = defaultdict(set)

    def ask(self, questions: dict[str, bytes], deadline: float) -> Iterator[tuple[str, bytes]]:
        asked = answers_of([next(iter(questions.values()))])[0]
        counts = asked["kind"] == "evaluate"
        if counts:
            self.measured[asked["round"]].add(asked["tensors"])
        for heard, (name, answer) in enumerate(self._inner.ask(questions, deadline)):
            if counts and self._deaths and heard == self._deaths[0]:
                self._deaths.pop(0)
                raise Killed
            yield name, answer


def trained(scene: Scene, deaths: list[int], absent: str | None = None) -> dict[int, set[str]]:
    """Train to the end, begun again after every death; which models were to be measured after which round.

    A site that is `absent` comes only after the first death.
    """
    measured: dict[int, set[str]] = defaultdict(set)
    while True:
        with scene.serving() as transport:
            if absent is not None:
                del transport.answers[absent]
            asker = DyingAsker(transport, deaths)
            try:
                run_federation(scene.coordinator, asker)
                return measured
            except Killed:
                absent = None
            finally:
                for round, models in asker.measured.items():
                    measured[round] |= models


@pytest.mark.parametrize(
    ("settings", "view"), [({}, View.SERVER), (SERVER_NOISE, View.RELEASED)], ids=["records", "noise at the server"]
)
def test_a_coordinator_that_dies_while_it_measures_asks_again_and_loses_nothing(
    tmp_path: Path, settings: dict[str, Any], view: View
) -> None:
    scene = make_scene(tmp_path, {**COUNTED, **settings}, held_out=30, allowed=policy(1e3, 1e3, view=view))
    measured = trained(scene, [0, 1, 2, 0, 1])
    assert {round: len(models) for round, models in measured.items()} == {1: 1, 2: 1, 3: 1}
    events = [event for event in scene.coordinator.run.read_events() if event["event"] == "round"]
    assert all("accuracy" in event and "loss" in event for event in events)
    for home in scene.sites.values():
        with home.opened_ledger() as ledger:
            counted = [paid.round for paid in ledger.paid if paid.declared[0].place == "evaluation"]
        assert counted == [1, 2, 3]  # one charge each, however often it was asked for


def test_a_site_that_comes_back_after_the_death_does_not_change_the_model_that_was_shown(tmp_path: Path) -> None:
    """Two models of one round that differ by one site's answer would show that answer, beside nobody else's noise."""
    settings = {**COUNTED, "cohort": {"kind": "everyone", "quorum": 2}}
    scene = make_scene(tmp_path, settings, held_out=30)
    measured = trained(scene, [1], absent="west")
    assert {round: len(models) for round, models in measured.items()} == {1: 1, 2: 1, 3: 1}
