"""Opening and closing a round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from scaled_noise import scale_noise

from fedveil.core.parameters import Layout
from fedveil.core.streams import Streams
from fedveil.core.types import Population, Receipt, Unit
from fedveil.engine.admission import Limited
from fedveil.engine.client import Statistics, Upload
from fedveil.engine.noise_memory import NoiseMemory
from fedveil.engine.receipts import ReceiptMismatch, check_receipts
from fedveil.engine.server import (
    CLIPPED_TOGETHER,
    Tally,
    close_round,
    open_round,
    open_tally,
    sanitise_sum,
    server_mechanism,
)
from fedveil.engine.server_state import ServerState, initial_state
from fedveil.engine.updates import clipped, update_norms
from fedveil.mechanisms.adaptive import CohortMedian, Histogram, Quantile
from fedveil.mechanisms.clip import Bound, Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.noise import NoiseSource
from fedveil.mechanisms.schedules import Linear
from fedveil.method import Method
from fedveil.parts.aggregation import Aggregation
from fedveil.parts.cohorts import Cohort, FixedSize, PoissonCohort
from fedveil.parts.optimisers import Adam, Momentum
from fedveil.parts.stopping import Stop

POPULATION = Population(records=(10,) * 20)


def layout(size: int) -> Layout:
    return Layout(("w",), ((size,),), (0,))


def upload(update: Sequence[float], client: int = 0) -> Upload:
    return Upload(client, torch.tensor(update), (), Statistics(loss=1.0, norms=(1.0,), rejected=0))


def closed(method: Method, start: list[float], *updates: list[float]) -> torch.Tensor:
    tally = Tally(layout(len(start)))
    for client, update in enumerate(updates):
        tally.add(upload(update, client))
    return close_round(method, initial_state(method, torch.tensor(start)), tally, POPULATION).parameters


def test_the_divisor_is_the_declared_cohort_whoever_came() -> None:
    method = Method(cohort=PoissonCohort(0.2))  # 4 of 20 expected, 2 came
    assert closed(method, [1.0, 1.0], [4.0, 0.0], [0.0, 8.0]).tolist() == [2.0, 3.0]


def test_an_empty_cohort_leaves_the_model_alone() -> None:
    assert closed(Method(cohort=PoissonCohort(0.2)), [1.0, 2.0]).tolist() == [1.0, 2.0]


def test_an_update_that_is_not_finite_counts_as_zero_and_is_counted() -> None:
    tally = Tally(layout(2))
    for update in ([1.0, 1.0], [math.nan, 0.0], [math.inf, 0.0]):
        tally.add(upload(update))
    assert tally.total.tolist() == [1.0, 1.0]
    assert tally.rejected_updates == 2


def test_the_norms_of_layers_are_means_over_the_updates_that_count() -> None:
    layers = Layout(("first", "second"), ((2,), (1,)), (0, 1))
    tally = Tally(layers)
    for client, update in enumerate(([3.0, 4.0, 1.0], [0.0, 1.0, -3.0], [math.nan, 0.0, 0.0])):
        tally.add(Upload(client, torch.tensor(update), (), Statistics(1.0, (float(client), 6.0), client)))
    assert tally.layer_update_norms == [3.0, 2.0]
    assert tally.layer_norms == [1.0, 6.0]
    assert (tally.clients, tally.rejected, tally.losses) == (3, 3, [1.0] * 3)


def test_the_sum_adds_one_client_after_another_in_double_precision() -> None:
    generator = torch.Generator().manual_seed(0)
    updates = torch.randn(40, 3, generator=generator) * torch.logspace(-6, 6, 40)[:, None]
    tally, expected = Tally(layout(3)), torch.zeros(3, dtype=torch.float64)
    for client, update in enumerate(updates):
        tally.add(upload(update.tolist(), client))
        expected += update
    assert torch.equal(tally.total, expected)


@pytest.mark.parametrize("count", [1, CLIPPED_TOGETHER - 1, CLIPPED_TOGETHER, 2 * CLIPPED_TOGETHER + 3])
def test_what_the_server_clips_side_by_side_is_what_it_would_clip_one_by_one(count: int) -> None:
    method = private(Quantile(2.0, sigma=1.0), sigma=1.5)
    mechanism = server_mechanism(method, initial_state(method, torch.zeros(300)))
    assert mechanism is not None
    updates = torch.randn(count, 300, generator=torch.Generator().manual_seed(1)) / 8
    updates[count // 2, 0] = math.nan
    tally = Tally(layout(300), mechanism)
    total, reports = torch.zeros(300, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    for client, update in enumerate(updates):
        tally.add(upload(update.tolist(), client))
        norms = update_norms(update[None], layout(300))
        total += clipped(update[None], norms, mechanism, layout(300), rows=1)[0]
        report = mechanism.report(norms[:, 0])
        assert report is not None
        reports += report[0]
    tally.settle(mechanism)
    assert torch.equal(tally.total, total)
    assert tally.reports is not None
    assert torch.equal(tally.reports, reports)


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


# Noise at the server.

SIZE = 4_000


def private(
    bound: Bound | float = 2.0, sigma: float = 1.5, noise: str = "sum", cohort: Cohort | None = None, by: str = "flat"
) -> Method:
    clip = Clip(bound, by=by)  # type: ignore[arg-type]
    server = Gaussian(clip=clip, sigma=sigma, noise=noise, unit=Unit.CLIENT)
    return Method(cohort=cohort or FixedSize(4), server=server, stop=Stop(5))


def sanitised(
    method: Method, updates: torch.Tensor, state: ServerState | None = None, seed: int = 1
) -> tuple[Tally, tuple[Receipt, ...], ServerState]:
    """A round of the server alone: the tally after the noise, the receipts, the next state."""
    state = state or initial_state(method, torch.zeros(updates.shape[-1]))
    tally = open_tally(method, state, layout(updates.shape[-1]), POPULATION)
    for update in updates:
        tally.add(upload(update.tolist()))
    cohort, source = range(len(updates)), NoiseSource(Streams.from_seed(seed))
    receipts = sanitise_sum(method, state, tally, cohort, source, NoiseMemory())
    return tally, receipts, close_round(method, state, tally, POPULATION)


def spread(values: torch.Tensor) -> float:
    return float(values.double().square().mean().sqrt())


def rows(*lengths: float, size: int = SIZE) -> torch.Tensor:
    """Updates of these norms, all in the same direction."""
    return torch.tensor(lengths)[:, None] * torch.ones(size) / math.sqrt(size)


def test_the_server_clips_every_update_before_it_adds_them_up() -> None:
    tally, _, _ = sanitised(private(sigma=0.0), rows(1.0, 50.0, 3.0))
    assert float(tally.total.norm()) == pytest.approx(1.0 + 2.0 + 2.0, rel=2e-3)


@pytest.mark.parametrize("came", [0, 1, 4, 9])
@pytest.mark.parametrize(
    ("noise", "cohort", "expected"),
    [
        ("sum", FixedSize(4), 3.0),
        ("row", FixedSize(4), 3.0 * 2),
        ("row", FixedSize(9), 3.0 * 3),
        ("sum", PoissonCohort(0.2), 3.0),
        ("row", PoissonCohort(0.2), 3.0 * 2),  # 4 of 20 expected
    ],
)
def test_noise_comes_once_on_the_sum_and_knows_the_declared_cohort_only(
    came: int, noise: str, cohort: Cohort, expected: float
) -> None:
    """σ·C for `sum`, σ·C·sqrt(m) for `row`, whoever came, even when nobody did."""
    tally, receipts, _ = sanitised(private(noise=noise, cohort=cohort), torch.zeros(came, SIZE))
    assert spread(tally.total) == pytest.approx(expected, rel=5 / math.sqrt(2 * SIZE))
    assert [receipt.did.sum_std for receipt in receipts] == pytest.approx([expected] * came)


def test_a_growing_cohort_grows_the_noise_on_rows_and_the_divisor() -> None:
    method = private(noise="row", cohort=FixedSize(2, growth=Linear(1.0, 8.0)))
    for round, m in ((0, 2), (4, 16)):
        state = replace(initial_state(method, torch.zeros(SIZE)), round=round)
        tally, receipts, after = sanitised(method, torch.zeros(2, SIZE), state)
        assert receipts[0].did.sum_std == pytest.approx(3.0 * math.sqrt(m))
        assert spread(tally.total) == pytest.approx(3.0 * math.sqrt(m), rel=0.06)
        torch.testing.assert_close(after.parameters.double(), tally.total / m, rtol=1e-5, atol=1e-6)


def test_an_empty_cohort_moves_the_model_by_noise_over_the_declared_size() -> None:
    _, receipts, after = sanitised(private(cohort=PoissonCohort(0.2)), torch.zeros(0, SIZE))
    assert spread(after.parameters) == pytest.approx(3.0 / 4, rel=0.06)
    assert receipts == ()


def test_receipts_are_those_that_the_method_declares() -> None:
    for method in (private(), private(noise="row"), private(Quantile(1.0, sigma=5.0), sigma=1.0)):
        state = initial_state(method, torch.zeros(SIZE))
        tally, receipts, _ = sanitised(method, rows(1.0, 2.0, 3.0))
        check_receipts(method, POPULATION, 0, range(3), receipts, tally.layout, state.bound)
        assert all(receipt.confirmed and receipt.draws == SIZE for receipt in receipts)


@pytest.mark.parametrize("factor", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("came", [0, 3])
def test_noise_of_another_size_stops_the_round(factor: float, came: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scale_noise(monkeypatch, factor)
    with pytest.raises(ReceiptMismatch, match="server: what was measured on the sum is not as declared"):
        sanitised(private(), torch.ones(came, SIZE))


def test_an_update_that_is_not_finite_adds_nothing_to_the_noisy_sum() -> None:
    updates = rows(1.0, 1.0, 1.0)
    updates[1, 7] = math.nan
    spoilt, _, _ = sanitised(private(), updates)
    without, _, _ = sanitised(private(), updates[[0, 2]])
    assert torch.equal(spoilt.total, without.total)
    assert spoilt.rejected_updates == 1


@pytest.mark.parametrize(
    ("lengths", "median"), [((1.0, 9.0, 3.0), 3.0), ((4.0, 1.0, 2.0, 3.0), 2.0), ((5.0,), 5.0), ((math.nan, 2.0), 2.0)]
)
def test_the_cohorts_median_clips_the_round_and_scales_its_noise(lengths: tuple[float, ...], median: float) -> None:
    method = private(CohortMedian(), sigma=0.5)
    tally, receipts, after = sanitised(method, rows(*lengths))
    assert receipts[0].did.bound == pytest.approx(median, rel=1e-4)
    assert receipts[0].did.leaks_bound
    silent, _, _ = sanitised(private(CohortMedian(), sigma=0.0), rows(*lengths))
    expected = sum(min(length, median) for length in lengths if math.isfinite(length))
    assert float(silent.total.norm()) == pytest.approx(expected, rel=2e-3)
    assert spread(tally.total - silent.total) == pytest.approx(0.5 * median, rel=0.06)
    assert after.bound is None


def test_without_anybody_the_median_is_one_and_noise_is_added_all_the_same() -> None:
    tally, _, _ = sanitised(private(CohortMedian()), torch.zeros(0, SIZE))
    assert spread(tally.total) == pytest.approx(1.5, rel=0.06)


@pytest.mark.parametrize("came", [0, 2, 6])
def test_the_count_has_noise_sigma_once_whoever_came(came: int) -> None:
    method = private(Quantile(start=2.0, target=0.5, sigma=3.0, rate=0.2), sigma=1.0)
    draws = []
    for seed in range(300):
        tally, _, after = sanitised(method, rows(*[1.0] * came, size=4) if came else torch.zeros(0, 4), seed=seed)
        assert tally.reports is not None
        draws.append(float(tally.reports[0]) - 0.5 * came)  # all below the bound
        share = float(tally.reports[0]) / 4 + 0.5
        assert after.bound == pytest.approx(2.0 * math.exp(-0.2 * (share - 0.5)), rel=1e-6)
    assert spread(torch.tensor(draws)) == pytest.approx(3.0, rel=5 / math.sqrt(600))


def test_a_histogram_renews_the_bound_in_its_rounds_only() -> None:
    method = private(Histogram(start=0.3, sigma=0.01, every=2), sigma=0.0)
    state = initial_state(method, torch.zeros(SIZE))
    bounds = [state.bound]
    for lengths in ((3.0, 3.0, 0.1), (0.1, 0.1, 0.1), (0.2, 0.2, 5.0)):
        _, _, state = sanitised(method, rows(*lengths), state)
        bounds.append(state.bound)
    assert bounds == pytest.approx([0.3, 2.0**1.5, 2.0**1.5, 2.0**-2.5])


def test_a_weighted_upload_counts_as_often_as_its_weight() -> None:
    tally = Tally(layout(2))
    tally.add(upload([1.0, 2.0]), 0.5)
    tally.add(upload([4.0, 0.0], client=1), 1.5)
    tally.add(upload([math.nan, 0.0], client=2), 2.0)
    assert tally.total.tolist() == [6.5, 1.0]
    assert tally.rejected_updates == 1


def test_the_released_model_is_the_mean_of_the_last_ones_and_training_goes_on_from_the_last() -> None:
    method = Method(cohort=PoissonCohort(0.05), aggregate=Aggregation(average=0.5), stop=Stop(4))
    state, released = initial_state(method, torch.zeros(1)), []
    for round in range(4):
        tally = Tally(layout(1))
        tally.add(upload([float(round)]))
        state = close_round(method, state, tally, POPULATION)
        released.append(float(state.released))
    assert float(state.parameters) == 0 + 1 + 2 + 3
    assert released == [0.0, 1.0, 3.0, 4.5]  # models 0, 1, then the means of (3) and (3, 6)
