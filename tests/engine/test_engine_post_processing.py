"""What becomes of noisy sums is computed once more, and any other result is noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fedveil.core.parameters import Layout
from fedveil.core.types import Population, Unit
from fedveil.engine.client import Statistics, Upload, local_steps
from fedveil.engine.closing_check import ClosingCheck
from fedveil.engine.gradients import Sums
from fedveil.engine.post_processing import agree, sent_as_measured, trained
from fedveil.engine.server import Tally, close_round
from fedveil.engine.server_state import ServerState, initial_state
from fedveil.engine.witness import looked_at
from fedveil.mechanisms.adaptive import Quantile
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.method import Method
from fedveil.parts.aggregation import Aggregation
from fedveil.parts.cohorts import PoissonCohort
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.optimisers import AdaGrad, Adam, Momentum, Optimiser, Sgd
from fedveil.parts.stopping import Stop

LAYOUT = Layout(("a", "b"), ((301,), (200,)), (0, 1))
PLACES, DECLARED, STEPS, CLIENTS = looked_at(LAYOUT), 5, 12, 3
OPTIMISERS = [Sgd(), Momentum(), Adam(), AdaGrad()]
POPULATION = Population(records=(10,) * 8)


def numbers(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_training_is_what_the_client_makes_of_its_sums(optimiser: Optimiser, decay: float) -> None:
    local, start = LocalTraining(optimiser=optimiser, decay=decay), numbers(1, CLIENTS, LAYOUT.size)
    sums = [100 * numbers(2 + step, CLIENTS, LAYOUT.size) for step in range(STEPS)]

    def after(divisor: float = 1.0) -> Tensor:
        def summed(step: int, parameters: Tensor) -> Sums:
            nothing = torch.zeros(CLIENTS)
            return Sums(sums[step] / divisor, nothing, None, nothing.long())

        return local_steps(local, start, STEPS, summed, rate=0.05, declared=DECLARED, layers=2)[0]

    began = start[:, PLACES]
    expected, largest = trained(local, began, [total[:, PLACES].double() for total in sums], 0.05, DECLARED)
    assert (largest >= expected.abs()).all()
    assert agree(expected, after()[:, PLACES], began, STEPS, largest).all()
    if not isinstance(optimiser, Adam | AdaGrad):  # to which the size of a gradient is nothing
        assert not agree(expected, after(1.1)[:, PLACES], began, STEPS, largest).any()


def test_training_that_comes_back_to_where_it_began_may_round_as_much_as_it_did_far_away() -> None:
    """Noise is a walk: one coordinate of many ends beside its start, which says nothing of what was rounded."""
    local, start = LocalTraining(optimiser=Sgd()), 1e-4 * numbers(1, 200, 60)
    steps = [numbers(2 + step, 200, 60) for step in range(99)]
    steps.append(1e-4 * numbers(101, 200, 60) - torch.stack(steps).double().sum(dim=0).float())
    parameters = start.clone()
    for total in steps:
        torch.add(parameters, total, alpha=-0.05 / DECLARED, out=parameters)
    expected, largest = trained(local, start, steps, 0.05, DECLARED)
    assert not agree(expected, parameters, start, len(steps)).all()
    assert agree(expected, parameters, start, len(steps), largest).all()
    assert not agree(expected, parameters + 1e-4 * largest, start, len(steps), largest).any()


def test_rows_agree_or_not_each_by_itself_and_what_is_not_finite_agrees_with_itself_only() -> None:
    mine = torch.tensor([[1.0, 2.0], [1.0, 2.0], [torch.nan, 1.0], [torch.inf, 1.0]])
    its = torch.tensor([[1.0, 2.0], [1.0, 2.1], [torch.nan, 1.0], [5.0, 1.0]])
    assert agree(mine, its).tolist() == [True, False, True, False]


def test_what_is_sent_is_what_was_measured_or_left_out_by_compression() -> None:
    noisy = numbers(1, 10).double()
    sent = noisy.float()
    assert sent_as_measured(sent, noisy, compressed=False)
    pruned = torch.where(torch.arange(10) < 4, sent, torch.zeros(()))
    assert not sent_as_measured(pruned, noisy, compressed=False)
    assert sent_as_measured(pruned, noisy, compressed=True)
    assert not sent_as_measured(2 * pruned, noisy, compressed=True)


def method(place: str, optimiser: Optimiser) -> Method:
    noise = Gaussian(clip=Clip(Quantile(start=1.0)), sigma=1.0, unit=Unit.CLIENT)
    return Method(
        cohort=PoissonCohort(0.5),
        aggregate=Aggregation(optimiser=optimiser),
        stop=Stop(5),
        **{place: noise},  # type: ignore[arg-type]
    )


def closed(
    place: str, optimiser: Optimiser, change: str | None = None, clients: int = 3
) -> tuple[ClosingCheck, Method, ServerState, ServerState, Tally]:
    """A round, as the loop closes it, with a change to what the model is made of."""
    chosen, check, tally = method(place, optimiser), ClosingCheck(LAYOUT), Tally(LAYOUT)
    for client in range(clients):
        statistics = Statistics(1.0, (0.0, 0.0), 0)
        report = numbers(9, 1).double() if place == "upload" else None
        upload = Upload(client, numbers(client, LAYOUT.size), (), statistics, report=report)
        tally.add(upload)
        check.add(upload)
    if place == "server":
        tally.measured, tally.reports = tally.sum[PLACES].clone(), numbers(9, 1).double()
        tally.measured_reports = tally.reports.clone()
    if change == "sum":
        tally.sum *= 0.9
    if change == "reports":
        assert tally.reports is not None
        tally.reports = tally.reports + 0.5
    before = initial_state(chosen, numbers(5, LAYOUT.size))
    population = Population(records=(10,) * 2 * clients) if change == "divisor" else POPULATION
    after = close_round(chosen, before, tally, population)
    if change == "model":
        after = replace(after, parameters=after.parameters + 0.01 * (after.parameters - before.parameters))
    return check, chosen, before, after, tally


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("place", ["upload", "server"])
def test_a_model_that_follows_from_its_sums_passes_and_any_other_does_not(place: str, optimiser: Optimiser) -> None:
    check, *state = closed(place, optimiser)
    assert check.passes(*state, POPULATION)
    changes = ["sum", "reports", "model"] + (["divisor"] if isinstance(optimiser, Sgd | Momentum) else [])
    for change in changes:
        check, *state = closed(place, optimiser, change)
        assert not check.passes(*state, POPULATION), change


def test_a_round_without_uploads_passes() -> None:
    check, *state = closed("server", Sgd(), clients=0)
    assert check.passes(*state, POPULATION)


def test_an_update_that_is_not_finite_counts_as_zero_here_too() -> None:
    chosen, check, tally = method("upload", Sgd()), ClosingCheck(LAYOUT), Tally(LAYOUT)
    for client, update in enumerate((numbers(1, LAYOUT.size), torch.full((LAYOUT.size,), torch.nan))):
        upload = Upload(client, update, (), Statistics(1.0, (0.0, 0.0), 0))
        tally.add(upload)
        check.add(upload)
    before = initial_state(chosen, numbers(5, LAYOUT.size))
    assert check.passes(chosen, before, close_round(chosen, before, tally, POPULATION), tally, POPULATION)


def test_weights_are_part_of_what_is_checked() -> None:
    chosen, check, tally = Method(cohort=PoissonCohort(0.5), stop=Stop(5)), ClosingCheck(LAYOUT), Tally(LAYOUT)
    for client, weight in enumerate((0.5, 1.5)):
        upload = Upload(client, numbers(client, LAYOUT.size), (), Statistics(1.0, (0.0, 0.0), 0))
        tally.add(upload, weight)
        check.add(upload, weight)
    before = initial_state(chosen, numbers(5, LAYOUT.size))
    after = close_round(chosen, before, tally, POPULATION)
    assert check.passes(chosen, before, after, tally, POPULATION)
    other = ClosingCheck(LAYOUT)
    for client in range(2):
        other.add(Upload(client, numbers(client, LAYOUT.size), (), Statistics(1.0, (0.0, 0.0), 0)), 1.0)
    assert not other.passes(chosen, before, after, tally, POPULATION)


def test_a_mean_that_is_not_of_the_models_as_they_were_made_does_not_pass() -> None:
    chosen = Method(cohort=PoissonCohort(0.5), aggregate=Aggregation(average=0.9), stop=Stop(5))
    check, tally = ClosingCheck(LAYOUT), Tally(LAYOUT)
    upload = Upload(0, numbers(0, LAYOUT.size), (), Statistics(1.0, (0.0, 0.0), 0))
    tally.add(upload)
    check.add(upload)
    before = replace(initial_state(chosen, numbers(5, LAYOUT.size)), round=2, average=numbers(6, LAYOUT.size))
    after = close_round(chosen, before, tally, POPULATION)
    assert after.average is not None
    assert check.passes(chosen, before, after, tally, POPULATION)
    for wrong in (None, after.average + 0.01, after.parameters):
        assert not check.passes(chosen, before, replace(after, average=wrong), tally, POPULATION)
