"""The order of a round, and what stops it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor

from fedveil.core.parameters import Layout
from fedveil.core.streams import Streams
from fedveil.core.types import Population, Taps
from fedveil.engine.batched import Evaluation
from fedveil.engine.client import Broadcast, Statistics, Upload
from fedveil.engine.loop import rounds
from fedveil.engine.personal_models import Starts
from fedveil.engine.receipts import ReceiptMismatch
from fedveil.engine.server_state import ServerState, initial_state
from fedveil.method import Method
from fedveil.parts.cohorts import FixedSize
from fedveil.parts.stopping import Stop

LAYOUT = Layout(("w",), ((100,),), (0,))
POPULATION = Population(records=(10,) * 6)


class Notes:
    """A runtime whose clients send ones, and a cashier; both note what happens, in one list."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    def pay(self, state: ServerState, cohort: Sequence[int]) -> None:
        self.events.append(("paid", state.round))

    def train(
        self, broadcast: Broadcast, cohort: Sequence[int], taps: Taps, starts: Starts | None = None
    ) -> Iterator[Upload]:
        self.events.append(("sent", broadcast.round))
        for client in cohort:
            yield Upload(client, self.update(client), (), Statistics(1.0, (0.0,), 0))

    def update(self, client: int) -> Tensor:
        return torch.ones(LAYOUT.size)

    def evaluate(self, state: ServerState) -> Evaluation:
        raise NotImplementedError


def trained(method: Method, notes: Notes) -> ServerState:
    state = initial_state(method, torch.zeros(LAYOUT.size))
    for closed in rounds(method, state, POPULATION, LAYOUT, notes, Streams.from_seed(1), pay=notes.pay):
        notes.events.append(("closed", closed.round))
        state = closed.state
    return state


def test_a_round_is_paid_for_before_anything_of_it_is_sent() -> None:
    notes = Notes()
    state = trained(Method(cohort=FixedSize(3), stop=Stop(4)), notes)
    assert notes.events == [(what, round) for round in range(4) for what in ("paid", "sent", "closed")]
    assert torch.equal(state.parameters, torch.full((LAYOUT.size,), 4.0))


def test_a_round_that_cannot_be_paid_for_is_not_sent() -> None:
    class Broke(Notes):
        def pay(self, state: ServerState, cohort: Sequence[int]) -> None:
            raise RuntimeError("no money")

    notes = Broke()
    with pytest.raises(RuntimeError, match="no money"):
        trained(Method(cohort=FixedSize(3), stop=Stop(4)), notes)
    assert notes.events == []


def test_nobody_takes_part_more_often_than_the_limit() -> None:
    notes = Notes()
    trained(Method(cohort=FixedSize(3, most=1), stop=Stop(10)), notes)
    assert notes.events[-1] == ("closed", 1), "six clients, three a round"


def test_a_cohort_that_comes_back_always_stops_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FixedSize, "draw", lambda self, candidates, generator: [0, 1, 2])
    with pytest.raises(ReceiptMismatch, match="drawn before"):
        trained(Method(cohort=FixedSize(3), stop=Stop(30)), Notes())
