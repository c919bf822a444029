"""The numbers that the papers print, by their own formulas, and the reason for every difference."""

from __future__ import annotations

from dataclasses import replace

import pytest
from accounts import claims, plan

from fedveil.accounting.claims import (
    fed_cdp_epsilon,
    fed_sdp_epsilon,
    geyer_delta,
    histogram_noise,
    moments_epsilon,
    prifedsync_mean,
)
from fedveil.accounting.compose import Term, certify, composition
from fedveil.accounting.events import Step
from fedveil.core.errors import FedveilError
from fedveil.core.types import Population, Unit, View
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import Constant
from fedveil.parts.batches import PoissonBatch, WithoutReplacement
from fedveil.parts.local_training import LocalTraining
from fedveil.zoo import FED_AVG, FED_CDP

ROUNDS = (100, 60, 10, 3)
POPULATION = Population((500,) * 100)


@pytest.mark.parametrize(
    ("local_steps", "stated", "tolerance"),
    [(100, (0.8227, 0.6356, 0.2761, 0.1469), 3e-4), (1, (0.0845, 0.0689, 0.0494, 0.0467), 5e-4)],
)
def test_fed_cdp_table_six(local_steps: int, stated: tuple[float, ...], tolerance: float) -> None:
    for rounds, epsilon in zip(ROUNDS, stated, strict=True):
        assert fed_cdp_epsilon(6.0, 0.01, local_steps, rounds, 1e-5) == pytest.approx(epsilon, abs=tolerance)


def test_fed_sdp_table_six() -> None:
    for rounds, epsilon in zip(ROUNDS, (0.8536, 0.6677, 0.3025, 0.2065), strict=True):
        assert fed_sdp_epsilon(6.0, 0.1, rounds, 1e-5) == pytest.approx(epsilon, abs=0.03)


def test_the_privacy_loss_distribution_is_tighter_than_the_table() -> None:
    parts = composition(Term(((Step("poisson", 6.0, 0.01), 10_000),)))
    assert certify(parts, 1e-5).epsilon == pytest.approx(0.601, abs=5e-4)


@pytest.mark.parametrize(
    ("records", "batch", "local_steps", "rows"),
    [
        (
            600,
            16,
            38,
            [
                (1, 93, 2.71),
                (0.9, 83, 3.10),
                (0.75, 64, 3.96),
                (1, 194, 3.92),
                (0.9, 176, 4.51),
                (0.75, 127, 5.58),
                (1, 386, 5.52),
                (0.9, 325, 6.13),
                (0.75, 245, 7.75),
            ],
        ),
        (600, 8, 76, [(1, 266, 3.24), (0.9, 229, 3.64), (0.75, 191, 4.84)]),
        (
            500,
            16,
            32,
            [
                (1, 468, 6.70),
                (0.75, 321, 9.77),
                (0.5, 207, 26.81),
                (1, 904, 9.31),
                (0.75, 671, 14.13),
                (0.5, 405, 37.51),
            ],
        ),
    ],
)
def test_prifedsync_tables(records: int, batch: int, local_steps: int, rows: list[tuple[float, int, float]]) -> None:
    for sigma, rounds, mean in rows:
        assert prifedsync_mean(records, batch, local_steps, rounds, sigma) == pytest.approx(mean, abs=0.00501)


def test_fed_cdp_claims_stand_beside_what_holds() -> None:
    found = claims(FED_CDP, POPULATION, 3, delta=1e-5)
    verified = plan(FED_CDP, POPULATION, 3, delta=1e-5)
    assert [(claim.unit, claim.view) for claim in found] == [
        (Unit.RECORD, View.SERVER),
        (Unit.CLIENT, View.RELEASED),
    ]
    assert found[0].epsilon == pytest.approx(0.8227, abs=3e-4)
    assert verified.of(Unit.RECORD, View.SERVER).epsilon == pytest.approx(5.8998, abs=1e-3)
    assert not verified.of(Unit.CLIENT, View.RELEASED).finite
    for claim in found:
        assert claim.difference.endswith(".")
        assert claim.difference.count(".") == 1
        assert {"unit", "view", "epsilon", "delta", "source", "difference"} <= claim.to_dict().keys()
    assert "sqrt(M)" in found[0].difference
    assert "partition" in found[0].difference


def test_the_reason_follows_the_batches() -> None:
    poisson = claims(replace(FED_CDP, batch=PoissonBatch(5)), POPULATION, 1, delta=1e-5)[0].difference
    fixed = claims(replace(FED_CDP, batch=WithoutReplacement(5)), POPULATION, 3, delta=1e-5)[0].difference
    assert "partition" not in poisson
    assert "sqrt(M)" not in poisson
    assert "fixed size" in fixed


def test_prifedsync_claims_are_read_from_a_method() -> None:
    method = replace(
        FED_AVG,
        batch=WithoutReplacement(16),
        local=LocalTraining(steps=38),
        example=Gaussian(clip=Clip(Constant(1.0)), sigma=2.0, noise="sum"),
        stop=replace(FED_AVG.stop, rounds=93),
    )
    weak, strong = claims(method, Population((600,) * 100), 4, delta=1e-5)
    assert weak.mean == pytest.approx(2.71, abs=0.00501)
    assert strong.mean == pytest.approx(2.71 * 99**0.5, rel=2e-3)
    assert strong.epsilon > weak.epsilon
    assert weak.to_dict()["mean"] == weak.mean


def test_nothing_is_claimed_where_no_noise_is_added() -> None:
    assert claims(FED_AVG, POPULATION, 3, delta=1e-5) == ()


def test_geyer_watches_delta_at_a_fixed_epsilon() -> None:
    deltas = [geyer_delta(1.0, 30, 100, rounds) for rounds in (1, 11, 50)]
    assert deltas == sorted(deltas)
    assert deltas[0] < 1e-5 < deltas[2]


def test_the_histogram_of_adaptive_median_clipping() -> None:
    noise = histogram_noise(0.8, 1e-8)
    assert moments_epsilon(noise, 1.0, 1, 1e-8) == pytest.approx(0.8, rel=0.01)
    assert certify(composition(Term(((Step("gaussian", noise), 1),))), 1e-8).epsilon < 0.8


@pytest.mark.parametrize(
    "call",
    [
        lambda: moments_epsilon(0.0, 0.1, 10, 1e-5),
        lambda: moments_epsilon(1.0, 1.1, 10, 1e-5),
        lambda: moments_epsilon(1.0, 0.1, 10, 0.0),
        lambda: moments_epsilon(float("nan"), 0.1, 10, 1e-5),
        lambda: prifedsync_mean(600, 16, 38, 93, 0.0),
    ],
)
def test_bad_input_is_refused(call: object) -> None:
    with pytest.raises(FedveilError):
        call()  # type: ignore[operator]
