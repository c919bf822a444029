"""The server divides by a constant, and plainly takes the mean."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fedveil.core.errors import FedveilError
from fedveil.core.types import Population
from fedveil.mechanisms.schedules import Constant, Linear
from fedveil.parts.aggregation import Aggregation
from fedveil.parts.cohorts import FixedSize, PoissonCohort
from fedveil.parts.optimisers import Adam, Momentum


def updates(count: int = 5, size: int = 8) -> Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(1))


def summed(given: Tensor) -> Tensor:
    return given.double().sum(dim=0)


def test_plain_aggregation_is_the_mean_of_the_models() -> None:
    start, changes = torch.linspace(-1, 1, 8), updates()
    after, state = Aggregation().apply(start, summed(changes), 5.0, (), 0, 10)
    torch.testing.assert_close(after, (start + changes).mean(dim=0), rtol=1e-6, atol=1e-6)
    assert state == ()
    assert after.dtype == torch.float32


def test_the_divisor_is_what_is_declared_and_not_how_many_came() -> None:
    start, changes = torch.zeros(8), updates(count=3)
    after, _ = Aggregation().apply(start, summed(changes), PoissonCohort(0.1).divisor(50), (), 0, 10)
    torch.testing.assert_close(after, changes.sum(dim=0) / 5)


def test_a_round_in_which_nobody_came_changes_nothing() -> None:
    start = torch.linspace(-1, 1, 8)
    after, _ = Aggregation().apply(start, torch.zeros(8, dtype=torch.float64), FixedSize(4).divisor(9), (), 0, 10)
    assert torch.equal(after, start)


def test_the_rate_follows_its_schedule_over_the_rounds() -> None:
    aggregation = Aggregation(rate=Linear(1.0, 0.5))
    total = torch.full((2,), 4.0, dtype=torch.float64)
    for round, rate in ((0, 1.0), (1, 0.75), (2, 0.5)):
        after, _ = aggregation.apply(torch.zeros(2), total, 4.0, (), round, 3)
        assert after.tolist() == pytest.approx([rate, rate])


def test_the_rate_may_be_a_number() -> None:
    assert Aggregation(rate=0.5).rate == Constant(0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["momentum", "adam"])
def test_a_server_optimiser_takes_the_mean_update_as_negative_gradient(kind: str) -> None:
    ours = Momentum(0.9) if kind == "momentum" else Adam()
    reference = torch.zeros(8, requires_grad=True)
    theirs = (
        torch.optim.SGD([reference], 0.1, momentum=0.9) if kind == "momentum" else torch.optim.Adam([reference], 0.1)
    )
    aggregation = Aggregation(optimiser=ours, rate=Constant(0.1))
    model, state = torch.zeros(8), ours.initial(torch.zeros(8))
    for round in range(5):
        changes = updates() * (round + 1)
        model, state = aggregation.apply(model, summed(changes), 5.0, state, round, 5)
        reference.grad = -changes.mean(dim=0)
        theirs.step()
    torch.testing.assert_close(model, reference.detach(), rtol=2e-5, atol=1e-6)


def test_updates_count_the_same_or_as_their_clients_have_records() -> None:
    population = Population((10, 30, 20))
    assert [Aggregation().weight(client, population) for client in range(3)] == [1.0, 1.0, 1.0]
    weights = [Aggregation(weights="records").weight(client, population) for client in range(3)]
    assert weights == [0.5, 1.5, 1.0]
    assert [Aggregation(weights="records").weight(client, Population((7, 7))) for client in range(2)] == [1.0, 1.0]


@pytest.mark.parametrize(("share", "first"), [(0.99, 0), (0.5, 5), (0.33, 6), (0.01, 9)])
def test_the_mean_of_the_last_models_is_their_mean(share: float, first: int) -> None:
    models, mean = updates(count=10), None
    for round in range(10):
        mean = Aggregation(average=share).averaged(mean, models[round], round, 10)
        if round < first:
            assert mean is None
        else:
            assert mean is not None
            torch.testing.assert_close(mean, models[first : round + 1].mean(dim=0))


def test_without_a_share_nothing_is_averaged() -> None:
    assert Aggregation().averaged(None, torch.ones(3), 9, 10) is None


@pytest.mark.parametrize("wrong", [{"average": 1.0}, {"average": -0.1}, {"weights": "loss"}])
def test_shares_and_weights_that_do_not_exist_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(FedveilError, match=next(iter(wrong))):
        Aggregation(**wrong)
