"""The statistics of the audit, on mechanisms whose ε is known exactly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fedveil.accounting.tradeoff import epsilon_of_mean
from fedveil.attacks.audit import bounds as audit_bounds
from fedveil.attacks.audit.bounds import (
    BY_CHECKS,
    BY_LEARNING,
    BY_SCORE,
    Evidence,
    clopper_pearson,
    evidence,
    operating_points,
    p_value,
    refuted,
)
from fedveil.core.errors import FedveilError


def gaussian_trials(mean: float, count: int, generator: np.random.Generator, delta: float = 1e-5) -> Evidence:
    coins = generator.random(count) < 0.5
    scores = generator.standard_normal(count) + mean * coins
    return evidence(scores, coins, delta=delta, confidence=0.95, independent=True)


def test_the_bound_of_the_paper_comes_out() -> None:
    """Steinke et al., appendix D: 75 of 100 guesses right, 1,000 canaries, δ = 1e-4, 95 % give ε ≥ 0.673."""
    assert refuted(1000, 100, 75, 1e-4, 0.05) == pytest.approx(0.673, abs=5e-4)
    assert p_value(100, 100, 75, math.log(3), 0.0) == pytest.approx(0.5535, abs=1e-3)


def test_a_p_value_falls_with_right_guesses_and_grows_with_epsilon_and_delta() -> None:
    assert p_value(1000, 100, 80, 0.5, 1e-5) < p_value(1000, 100, 70, 0.5, 1e-5)
    assert p_value(1000, 100, 80, 1.5, 1e-5) > p_value(1000, 100, 80, 0.5, 1e-5)
    assert p_value(1000, 100, 80, 0.5, 1e-3) > p_value(1000, 100, 80, 0.5, 1e-5)


def test_guessing_by_chance_refutes_nothing() -> None:
    assert refuted(1000, 100, 50, 0.0, 0.05) == 0.0
    generator = np.random.default_rng(1)
    assert gaussian_trials(0.0, 1000, generator).epsilon() < 0.2


@pytest.mark.parametrize("mean", [0.27, pytest.param(1.0, marks=pytest.mark.slow)])
def test_the_bounds_of_an_exact_gaussian_hold_in_at_least_95_of_100_repetitions(mean: float) -> None:
    generator, wrong, times = np.random.default_rng(7), 0, 100
    for _ in range(times):
        found = gaussian_trials(mean, 800, generator)
        assert found.mean is not None
        curve = [found.epsilon(delta) > epsilon_of_mean(mean, delta) for delta in (1e-5, 1e-2, 0.1, 0.3)]
        wrong += found.mean > mean or any(curve)
    assert wrong <= 0.05 * times


def test_trials_that_chose_the_threshold_are_not_evaluated_at_it() -> None:
    generator = np.random.default_rng(4)
    coins = generator.random(4000) < 0.5
    scores = generator.standard_normal(4000)
    scores[::4] += 8 * coins[::4]  # those that choose tell everything, the others nothing
    assert max(point.epsilon(1e-5) for point in operating_points(scores, coins, 1e-5, 0.05)) < 0.1


@pytest.mark.parametrize("independent", [True, False])
def test_the_bounds_share_the_probability_of_being_wrong(independent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may be wrong with its own share; all of them together with at most 1 − confidence."""
    shares: list[float] = []

    def counting(successes: Any, trials: int, error: float) -> Any:
        shares.extend([error] * (np.size(successes) == 1))  # several: a threshold is being chosen
        return clopper_pearson(successes, trials, error)

    def refuting(canaries: int, guesses: int, right: int, delta: float, error: float) -> float:
        shares.append(error)
        return refuted(canaries, guesses, right, delta, error)

    monkeypatch.setattr(audit_bounds, "clopper_pearson", counting)
    monkeypatch.setattr(audit_bounds, "refuted", refuting)
    generator = np.random.default_rng(5)
    coins = generator.random(800) < 0.5
    scores = generator.standard_normal(800) + coins
    evidence(scores, coins, delta=1e-5, confidence=0.9, independent=independent, readings=scores[:, None])
    assert sum(shares) == pytest.approx(0.1 * (BY_SCORE + BY_LEARNING))
    assert pytest.approx(1) == BY_SCORE + BY_LEARNING + BY_CHECKS


def test_randomised_response_is_bounded_below_its_epsilon_and_nearly_reached() -> None:
    """The mechanism for which counting right guesses is tight."""
    generator, epsilon, found = np.random.default_rng(3), 1.0, []
    for _ in range(60):
        coins = generator.random(2000) < 0.5
        honest = generator.random(2000) < 1 / (1 + math.exp(-epsilon))
        scores = np.where(honest, coins, ~coins) + 1e-9 * generator.random(2000)
        found.append(evidence(scores, coins, delta=0.0, confidence=0.95, independent=False).epsilon())
    assert np.mean(np.array(found) > epsilon) <= 0.05
    assert np.mean(found) > 0.7 * epsilon


@pytest.mark.parametrize(("mean", "trials"), [(0.27, 20_000), (0.5, 4000), (1.0, 1000)])
def test_the_gaussian_bound_reaches_more_than_half_of_the_true_epsilon(mean: float, trials: int) -> None:
    """ε(1e-5) is 1.0, 2.0 and 4.4."""
    generator = np.random.default_rng(5)
    found = [gaussian_trials(mean, trials, generator).mean or 0.0 for _ in range(10)]
    assert np.median([epsilon_of_mean(low, 1e-5) for low in found]) > 0.5 * epsilon_of_mean(mean, 1e-5)


def test_the_bound_for_any_mechanism_reaches_half_of_epsilon_where_trials_can_show_it() -> None:
    generator = np.random.default_rng(6)
    found = [gaussian_trials(1.0, 4000, generator, delta=0.1).epsilon() for _ in range(5)]
    assert np.median(found) > 0.5 * epsilon_of_mean(1.0, 0.1)


def test_clopper_pearson_has_its_closed_form_at_the_ends() -> None:
    assert clopper_pearson(np.array([0]), 100, 0.05)[0] == 0
    assert clopper_pearson(np.array([100]), 100, 0.05)[0] == pytest.approx(0.05 ** (1 / 100))


def test_higher_confidence_gives_a_smaller_bound() -> None:
    generator = np.random.default_rng(2)
    coins = generator.random(1000) < 0.5
    scores = generator.standard_normal(1000) + coins
    bounds = [evidence(scores, coins, delta=1e-5, confidence=c, independent=True).epsilon() for c in (0.5, 0.95, 0.999)]
    assert bounds[0] > bounds[1] > bounds[2]


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, math.nan])
def test_a_confidence_outside_0_and_1_is_refused(confidence: float) -> None:
    with pytest.raises(FedveilError, match="confidence"):
        evidence(np.zeros(4), np.zeros(4, dtype=bool), delta=0.0, confidence=confidence, independent=True)


def test_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(FedveilError, match="score"):
        evidence(np.array([math.nan]), np.array([True]), delta=0.0, confidence=0.9, independent=False)


@pytest.mark.parametrize("coins", [[True] * 8, [False] * 8, [True], []])
def test_few_or_one_sided_coins_refute_nothing_and_break_nothing(coins: list[bool]) -> None:
    found = evidence(
        np.arange(len(coins)) * 1.0, np.array(coins, dtype=bool), delta=1e-5, confidence=0.95, independent=True
    )
    assert found.epsilon() == 0.0


def test_a_learned_score_shows_what_two_equal_noises_hide() -> None:
    """Either reading alone is hidden by noise a hundred times as large; their difference is not."""
    generator = np.random.default_rng(8)
    coins = generator.random(800) < 0.5
    noise = 100 * generator.standard_normal(800)
    readings = np.stack((coins + noise, noise), axis=1)
    plain = evidence(readings[:, 0], coins, delta=1e-5, confidence=0.95, independent=True)
    learned = evidence(readings[:, 0], coins, delta=1e-5, confidence=0.95, independent=True, readings=readings)
    assert plain.epsilon() < 0.5
    assert learned.epsilon() > 4


@pytest.mark.parametrize("columns", [1, 9, 300])
def test_what_is_learned_from_noise_alone_shows_nothing(columns: int) -> None:
    """More readings than canaries to learn from fit them perfectly; the others tell."""
    generator, wrong = np.random.default_rng(9), 0
    for _ in range(40):
        coins = generator.random(400) < 0.5
        readings = generator.standard_normal((400, columns))
        shown = evidence(readings[:, 0], coins, delta=1e-5, confidence=0.95, independent=True, readings=readings)
        wrong += shown.epsilon() > 0
    assert wrong <= 4
