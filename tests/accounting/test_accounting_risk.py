"""What an ε leaves to an attacker, against simulation, closed forms and another package."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from accounts import calibrate, plan
from dp_accounting.pld import privacy_loss_distribution as library
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_accountant import Law, power, sampled, spread_of
from scipy.stats import norm

from fedveil.accounting.compose import Composition, Term, certified_delta, certify, composition
from fedveil.accounting.context import RiskTarget
from fedveil.accounting.events import Step
from fedveil.accounting.risk import hit_rate, risk_of, tradeoff_points
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Guarantee
from fedveil.core.risks import FALSE_ALARMS, Risk
from fedveil.core.types import Population, Unit, View
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.method import Method
from fedveil.parts.batches import FullBatch, PoissonBatch
from fedveil.parts.cohorts import Everyone, FixedSize
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.stopping import Stop

SERVER = (Unit.RECORD, View.SERVER)


def poisson(noise: float, rate: float, count: int) -> Composition:
    return composition(Term(((Step("poisson", noise, rate), count),)))


def test_fifteen_gaussians_are_one_and_a_guess_is_right_599_times_in_1000() -> None:
    risk = risk_of(composition(Term(((Step("gaussian", 7.725), 15),))))
    assert risk.mean == pytest.approx(0.5014, abs=1e-4)
    assert risk.right == pytest.approx(0.599, abs=1e-4)
    for fpr, tpr in zip(FALSE_ALARMS, risk.hits, strict=True):
        assert tpr == pytest.approx(float(norm.cdf(norm.ppf(fpr) + risk.mean)), abs=1e-8)


@pytest.mark.parametrize(
    ("noise", "rate", "count", "hits", "advantage"),
    [
        (1.0, 0.01, 1000, (0.004014, 0.029100, 0.194179), 0.161018),
        (2.0, 0.1, 50, (0.003648, 0.026823, 0.184349), 0.146293),
        (7.746, 0.01, 10_000, (0.001537, 0.014029, 0.124709), 0.051701),
    ],
)
def test_another_package_agrees_and_is_never_above(
    noise: float, rate: float, count: int, hits: tuple[float, ...], advantage: float
) -> None:
    """`get_beta_from_pld` and `get_advantage_from_pld` of riskcal 1.5.1, grid 1e-4, which is rounded up as well."""
    risk = risk_of(poisson(noise, rate, count))
    for mine, theirs in zip((*risk.hits, risk.advantage), (*hits, advantage), strict=True):
        assert theirs - 2e-5 <= mine <= theirs + 1e-3


def test_riskcal_itself_agrees_where_it_is_installed() -> None:
    conversions = pytest.importorskip("riskcal.analysis.conversions")
    theirs = library.from_gaussian_mechanism(1.3, sampling_prob=0.05, value_discretization_interval=1e-4).self_compose(
        100
    )
    parts = poisson(1.3, 0.05, 100)
    for fpr in (0.001, 0.01, 0.05, 0.1, 0.5):
        beta = float(conversions.get_beta_from_pld(theirs, fpr))
        assert 1 - beta - 2e-5 <= hit_rate(parts, fpr) <= 1 - beta + 1e-3
    advantage = float(conversions.get_advantage_from_pld(theirs))
    assert advantage - 2e-5 <= risk_of(parts).advantage <= advantage + 1e-3


def best_hit_rate(law: Law, fpr: float) -> float:
    """By the likelihood-ratio test itself: outcomes by falling loss, until Q's mass is the false-positive rate."""
    falling = law.masses[::-1]
    alarms = np.cumsum(falling * np.exp(-law.losses[::-1]))
    return float(np.interp(fpr, np.concatenate(([0.0], alarms)), np.concatenate(([0.0], np.cumsum(falling)))))


@pytest.mark.parametrize(
    ("noise", "rate", "count"), [(0.7, 0.02, 60), (1.3, 0.3, 12), (4.0, 0.9, 30), (2.5, 0.004, 800), (9.0, 0.5, 200)]
)
def test_an_independent_accountant_agrees(noise: float, rate: float, count: int) -> None:
    present, absent = [(1 - rate, 0.0), (rate, 1.0)], [(1.0, 0.0)]
    grid = max(spread_of(present, absent, noise), 1e-4) / 40
    laws = [power(law, count) for law in sampled(noise, rate, grid)]
    parts = poisson(noise, rate, count)
    for fpr in (0.001, 0.01, 0.05, 0.1, 0.5):
        truth = max(best_hit_rate(law, fpr) for law in laws)
        assert truth - 2e-4 <= hit_rate(parts, fpr) <= truth + 1e-3
    truth = max(law.delta(0.0) for law in laws)
    assert truth - 2e-4 <= risk_of(parts).advantage <= truth + 1e-3


def test_a_risk_smaller_than_delta_can_be_aimed_at() -> None:
    """δ says at which ε is printed beside it, and not what the risk is."""
    found = calibrate(METHOD, POPULATION, 1, RiskTarget(0.2, advantage=0.1))
    risk = plan(found.method, POPULATION, 1, delta=0.2).of(*SERVER).risk
    assert risk is not None
    assert 0.099 <= risk.advantage <= 0.1


def test_no_attacker_that_is_simulated_does_better() -> None:
    """The likelihood-ratio test on the composed pair, which no test beats, from both sides."""
    noise, rate, count, draws = 0.8, 0.2, 5, 200_000
    generator = np.random.default_rng(5)

    def losses(present: bool) -> np.ndarray:
        x = noise * generator.normal(size=(draws, count))
        x += present * (generator.random((draws, count)) < rate)
        return np.log1p(rate * np.expm1((2 * x - 1) / (2 * noise**2))).sum(axis=1)

    with_it, without = losses(True), losses(False)
    parts = poisson(noise, rate, count)
    for fpr in (0.01, 0.1, 0.3):
        reached = [
            float((with_it > np.quantile(without, 1 - fpr)).mean()),
            float((without < np.quantile(with_it, fpr)).mean()),
        ]
        error = 4 * math.sqrt(0.25 / draws) + 4 * math.sqrt(fpr / draws)
        assert max(reached) - error <= hit_rate(parts, fpr) <= max(reached) + error + 5e-3


@settings(max_examples=12, deadline=None)
@given(st.floats(0.6, 8.0), st.floats(0.01, 0.9), st.integers(1, 300), st.floats(0.001, 0.9))
def test_rates_follow_from_every_epsilon_and_fall_with_noise(noise: float, rate: float, count: int, fpr: float) -> None:
    parts = poisson(noise, rate, count)
    mine, risk = hit_rate(parts, fpr), risk_of(parts)
    assert fpr <= mine <= 1
    assert mine <= min(1.0, fpr + risk.advantage) + 1e-6
    for epsilon in (0.1, 1.0, 3.0):
        assert mine <= certified_delta(parts, epsilon) + math.exp(epsilon) * fpr + 1e-6
    assert hit_rate(poisson(noise * 1.3, rate, count), fpr) <= mine + 2e-3
    assert risk.advantage <= risk_of(poisson(noise, rate, count * 2)).advantage + 2e-3
    epsilon = certify(parts, 1e-5).epsilon
    if math.isfinite(epsilon) and epsilon < 50:
        generic = 1 - (1 - 1e-5) / (1 + math.exp(epsilon))
        assert risk.right <= generic + 1e-6, "the trade-off function says no less than one (ε, δ)"


def test_nothing_spent_is_no_risk_and_the_ends_of_the_curve_are_right() -> None:
    assert risk_of(()) == Risk((0.001, 0.01, 0.1), 0.0, 0.5, 0.0)
    parts = poisson(1.0, 0.1, 20)
    levels, rates = tradeoff_points(parts)
    assert (levels[0], levels[-1], rates[-1]) == (0.0, 1.0, 1.0)
    assert all(low <= high + 1e-9 for low, high in pairwise(rates))
    assert all(rate >= level for level, rate in zip(levels, rates, strict=True))
    risk = risk_of(parts)
    assert hit_rate(parts, risk.best) - risk.best == pytest.approx(risk.advantage, abs=1e-3)


METHOD = Method(
    example=Gaussian(clip=Clip(1.0), sigma=2.0),
    batch=PoissonBatch(5),
    local=LocalTraining(steps=10),
    cohort=FixedSize(4),
    stop=Stop(5),
)
POPULATION = Population((100,) * 20)


def test_every_finite_cell_carries_its_risk_and_keeps_it_in_json() -> None:
    table = plan(METHOD, POPULATION, 1, delta=1e-5)
    for cell in table.guarantees:
        assert (cell.risk is not None) == cell.finite
        assert Guarantee.from_dict(json.loads(json.dumps(cell.to_dict()))) == cell
    released, server = table.of(Unit.RECORD, View.RELEASED).risk, table.of(*SERVER).risk
    assert released is not None
    assert server is not None
    assert released.advantage < server.advantage
    assert table.hit_rate(*SERVER, 0.01) == server.hits[1]
    assert table.hit_rate(Unit.CLIENT, View.SERVER, 0.01) == 1.0
    assert table.tradeoff(Unit.CLIENT, View.SERVER) is None


def test_the_worst_client_by_risk_counts_even_where_another_has_the_larger_epsilon() -> None:
    method = Method(
        example=Gaussian(clip=Clip(1.0), sigma=3.0, noise="row"),
        batch=FullBatch(),
        local=LocalTraining(steps=1),
        cohort=Everyone(),
        stop=Stop(3),
    )
    table = plan(method, Population((10, 20, 40)), 1, delta=1e-5)
    worst = max(table.client(client, *SERVER).risk.advantage for client in range(3))  # type: ignore[union-attr]
    assert table.of(*SERVER).risk.advantage == worst  # type: ignore[union-attr]


def test_noise_is_solved_for_an_advantage_or_a_rate() -> None:
    for target, reached in (
        (RiskTarget(1e-5, advantage=0.1), lambda cell, table: cell.risk.advantage / 0.1),
        (RiskTarget(1e-5, tpr=0.05, fpr=0.01), lambda cell, table: table.hit_rate(*SERVER, 0.01) / 0.05),
    ):
        found = calibrate(METHOD, POPULATION, 1, target)
        table = plan(found.method, POPULATION, 1, delta=1e-5)
        assert 0.99 <= reached(table.of(*SERVER), table) <= 1
    rounds = calibrate(METHOD, POPULATION, 1, RiskTarget(1e-5, advantage=0.1), solve="rounds")
    assert rounds.value >= 1


@pytest.mark.parametrize(
    "wrong",
    [{}, {"advantage": 0.1, "tpr": 0.1, "fpr": 0.01}, {"tpr": 0.1}, {"fpr": 0.1}, {"advantage": 1.5},
     {"advantage": 0.0}, {"tpr": 0.01, "fpr": 0.01}, {"tpr": 1.0, "fpr": 0.01}],
)  # fmt: skip
def test_a_risk_that_cannot_be_aimed_at_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(FedveilError):
        RiskTarget(1e-5, **wrong)  # type: ignore[arg-type]
