"""Opening and closing a round."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fedveil.core.parameters import Layout
from fedveil.core.streams import Streams
from fedveil.core.types import Population
from fedveil.engine.admission import Limited
from fedveil.engine.client import Statistics, Uploads
from fedveil.engine.server import Tally, close_round, initial_state, open_round
from fedveil.method import Method
from fedveil.parts.aggregation import Aggregation
from fedveil.parts.cohorts import FixedSize, PoissonCohort
from fedveil.parts.optimisers import Adam, Momentum

POPULATION = Population(records=(10,) * 20)


def layout(size: int) -> Layout:
    return Layout(("w",), ((size,),), (0,))


def upload(*updates: list[float]) -> Uploads:
    count = len(updates)
    statistics = Statistics(torch.ones(count), torch.ones(count, 1), torch.zeros(count, dtype=torch.int64))
    return Uploads(tuple(range(count)), torch.tensor(updates), (), statistics)


def closed(method: Method, start: list[float], *uploads: Uploads) -> torch.Tensor:
    tally = Tally(layout(len(start)))
    for part in uploads:
        tally.add(part)
    return close_round(method, initial_state(method, torch.tensor(start)), tally, POPULATION).parameters


def test_the_divisor_is_the_declared_cohort_whoever_came() -> None:
    method = Method(cohort=PoissonCohort(0.2))  # 4 of 20 expected, 2 came
    assert closed(method, [1.0, 1.0], upload([4.0, 0.0], [0.0, 8.0])).tolist() == [2.0, 3.0]


def test_an_empty_cohort_leaves_the_model_alone() -> None:
    assert closed(Method(cohort=PoissonCohort(0.2)), [1.0, 2.0]).tolist() == [1.0, 2.0]


def test_an_update_that_is_not_finite_counts_as_zero_and_is_counted() -> None:
    tally = Tally(layout(2))
    tally.add(upload([1.0, 1.0], [float("nan"), 0.0], [float("inf"), 0.0]))
    assert tally.total.tolist() == [1.0, 1.0]
    assert tally.rejected_updates == 2


def test_the_sum_does_not_depend_on_how_uploads_were_chunked() -> None:
    generator = torch.Generator().manual_seed(0)
    updates = [row.tolist() for row in torch.randn(40, 3, generator=generator) * torch.logspace(-6, 6, 40)[:, None]]
    method = Method(cohort=FixedSize(20))
    whole = closed(method, [0.0] * 3, upload(*updates))
    assert torch.equal(whole, closed(method, [0.0] * 3, *[upload(update) for update in updates]))
    assert torch.equal(whole, closed(method, [0.0] * 3, upload(*updates[:7]), upload(*updates[7:])))


@pytest.mark.parametrize("optimiser", [Momentum(0.9), Adam()])
def test_a_server_optimiser_takes_the_mean_update_as_a_negative_gradient(optimiser: Momentum | Adam) -> None:
    method = Method(cohort=FixedSize(1), aggregate=Aggregation(optimiser=optimiser, rate=0.5))  # type: ignore[arg-type]
    parameter = torch.nn.Parameter(torch.tensor([1.0, -1.0]))
    theirs = (
        torch.optim.SGD([parameter], lr=0.5, momentum=0.9)
        if isinstance(optimiser, Momentum)
        else torch.optim.Adam([parameter], lr=0.5)
    )
    state = initial_state(method, torch.tensor([1.0, -1.0]))
    for update in ([0.3, 0.1], [-0.2, 0.5], [0.1, 0.1]):
        tally = Tally(layout(2))
        tally.add(upload(update))
        state = close_round(method, state, tally, POPULATION)
        parameter.grad = -torch.tensor(update)
        theirs.step()
    torch.testing.assert_close(state.parameters, parameter.detach())
    assert state.round == 3


def test_cohorts_differ_between_rounds_and_repeat_with_the_seed() -> None:
    method = Method(cohort=FixedSize(5))
    state = initial_state(method, torch.zeros(1))
    first = [open_round(method, replace(state, round=t), range(20), Streams.from_seed(1))[0] for t in range(5)]
    again = [open_round(method, replace(state, round=t), range(20), Streams.from_seed(1))[0] for t in range(5)]
    assert first == again
    assert len({tuple(cohort) for cohort in first}) > 1


def test_only_candidates_are_drawn() -> None:
    method = Method(cohort=FixedSize(5))
    state = initial_state(method, torch.zeros(1))
    assert open_round(method, state, [17, 18, 19], Streams.from_seed(1))[0] == [17, 18, 19]
    assert open_round(method, state, [], Streams.from_seed(1))[0] == []


def test_a_client_that_has_taken_part_often_enough_is_no_candidate() -> None:
    admission = Limited([2, 1, 0], most=2)
    assert admission.candidates(0) == [1, 2]
    admission.took_part(0, [1, 2])
    assert admission.candidates(1) == [2]
    assert Limited([5, 9], most=None).candidates(0) == [0, 1]
