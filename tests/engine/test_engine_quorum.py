"""Who was drawn and who has arrived are two things."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch

from fedveil.core.errors import FedveilError
from fedveil.core.parameters import Layout
from fedveil.core.streams import Streams
from fedveil.core.types import Population, Taps
from fedveil.data.examples import Examples
from fedveil.data.row_lists import RowLists
from fedveil.engine.batched import Evaluation
from fedveil.engine.client import Broadcast, Upload
from fedveil.engine.loop import BelowQuorum, Closed, rounds
from fedveil.engine.personal_models import Starts
from fedveil.engine.receipts import ReceiptMismatch
from fedveil.engine.server_state import ServerState, initial_state
from fedveil.engine.sites import Sites
from fedveil.method import Method
from fedveil.parts.batches import PoissonBatch
from fedveil.parts.cohorts import Everyone, FixedSize, PoissonCohort, needed
from fedveil.parts.stopping import Stop

LAYOUT = Layout(("w",), ((10,),), (0,))
POPULATION = Population(records=(10,) * 5)


class Losing:
    """A runtime whose clients send ones; some of them never arrive, or somebody else does."""

    def __init__(self, lost: set[int], strangers: Sequence[int] = ()) -> None:
        self._lost, self._strangers, self.asked = lost, strangers, list[list[int]]()

    def train(
        self, broadcast: Broadcast, cohort: Sequence[int], taps: Taps, starts: Starts | None = None
    ) -> Iterator[Upload]:
        self.asked.append(list(cohort))
        for client in [*(one for one in cohort if one not in self._lost), *self._strangers]:
            yield Upload(client, torch.ones(LAYOUT.size), (), None)

    def evaluate(self, state: ServerState) -> Evaluation:
        raise NotImplementedError


def closed(
    cohort: Everyone | FixedSize, runtime: Losing, begun: Sequence[int] | None = None
) -> tuple[list[Closed], list[list[int]]]:
    method, paid = Method(cohort=cohort, stop=Stop(rounds=2)), list[list[int]]()
    state = initial_state(method, torch.zeros(LAYOUT.size))
    every = rounds(
        method, state, POPULATION, LAYOUT, runtime, Streams.from_seed(1),
        pay=lambda state, drawn: paid.append(list(drawn)), begun=begun,
    )  # fmt: skip
    return list(every), paid


def test_the_drawn_pay_and_the_arrived_count() -> None:
    done, paid = closed(Everyone(quorum=3), Losing({1, 4}))
    assert paid == [[0, 1, 2, 3, 4]] * 2
    assert [(one.cohort, one.arrived) for one in done] == [((0, 1, 2, 3, 4), (0, 2, 3))] * 2
    assert done[0].summary.clients == 3
    assert done[0].summary.train_loss is None  # real sites tell nobody


def test_the_divisor_is_that_of_the_declared_cohort() -> None:
    done, _ = closed(Everyone(quorum=3), Losing({1, 4}))
    assert torch.allclose(done[0].state.parameters, torch.full((10,), 3 / 5))


def test_below_the_quorum_the_round_is_not_handed_out() -> None:
    with pytest.raises(BelowQuorum, match="2 of 5"):
        closed(Everyone(quorum=3), Losing({1, 2, 4}))


def test_without_a_quorum_nobody_may_be_lost() -> None:
    with pytest.raises(ReceiptMismatch, match="missing, first of client 1"):
        closed(Everyone(), Losing({1, 4}))


@pytest.mark.parametrize("strangers", [(0,), (7,)])
def test_an_upload_twice_or_of_somebody_who_was_not_drawn_stops_the_round(strangers: Sequence[int]) -> None:
    with pytest.raises(ReceiptMismatch, match="not drawn, or two of one client"):
        closed(Everyone(quorum=1), Losing(set(), strangers))


def test_a_round_that_was_begun_is_asked_of_the_same_clients_and_not_paid_again() -> None:
    runtime = Losing(set())
    done, paid = closed(FixedSize(2), runtime, begun=(1, 3))
    assert runtime.asked[0] == [1, 3]
    assert len(paid) == 1  # the second round
    assert done[0].cohort == (1, 3)


def test_how_many_are_needed() -> None:
    assert needed(Everyone(), 5) == 5
    assert needed(Everyone(quorum=3), 5) == 3
    assert needed(PoissonCohort(0.5, quorum=3), 2) == 2  # so few were drawn
    assert FixedSize(4, quorum=2).at(3, 10).quorum == PoissonCohort(0.5, quorum=2).at(3, 10).quorum == 2


@pytest.mark.parametrize("cohort", [Everyone(quorum=6), FixedSize(4, quorum=5)])
def test_a_quorum_that_nobody_can_reach_is_refused(cohort: Everyone | FixedSize) -> None:
    with pytest.raises(FedveilError, match=r"cohort\.quorum"):
        Method(cohort=cohort).check(POPULATION)


# A client's number


def test_a_site_alone_draws_what_it_would_draw_among_all() -> None:
    generator = torch.Generator().manual_seed(0)
    parts = [
        Examples(torch.rand(size, 3, generator=generator), torch.zeros(size, dtype=torch.int64)) for size in (8, 9)
    ]
    whole = Examples(torch.cat([part.inputs for part in parts]), torch.cat([part.labels for part in parts]))
    together = Sites.of(whole, RowLists.of([torch.arange(8), torch.arange(8, 17)]))
    alone = Sites.alone(parts[1], 1)
    method, streams = Method(batch=PoissonBatch(3)), Streams.from_seed(4)
    mine, its = (sites.draw(method, 2, [1], streams) for sites in (alone, together))
    assert torch.equal(mine.positions, its.positions)
    assert torch.equal(alone.batches(mine).at(0).inputs, together.batches(its).at(0).inputs)
    with pytest.raises(FedveilError, match="client 0 are not here"):
        alone.draw(method, 2, [0], streams)
