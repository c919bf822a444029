"""What an audit could see, against simulation and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from fedveil.accounting.tradeoff import delta_of_mean, epsilon_of_mean
from fedveil.attacks.audit.bounds import clopper_pearson, evidence
from fedveil.attacks.audit.power import HALF, NOTICED_WITH, Guesser, enough_answers, noticed_noise, power_of
from fedveil.attacks.audit.promise import Promise


def promise_of(mean: float) -> Promise:
    return Promise(1e-5, epsilon_of_mean(mean, 1e-5), (), mean)


def coins_of(count: int, seed: int = 1) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return np.random.default_rng(seed).random(count) < 0.5


def exact(mean: float) -> Guesser:
    return Guesser(np.full(1, mean))


@pytest.mark.parametrize("noise", [1.0, 0.5, 0.1])
def test_an_answer_is_right_as_often_as_the_gaussian_trade_off_function_says(noise: float) -> None:
    assert exact(1.3).right(noise) == pytest.approx(float(ndtr(1.3 / noise / 2)))


def test_a_canary_that_is_rarely_used_is_rarely_told() -> None:
    mixed = Guesser(np.array([8.0, 0.0, 0.0, 0.0]))
    assert mixed.right(1.0) < exact(8.0).right(1.0)
    assert mixed.right(1e-3) == pytest.approx(0.5 + 0.5 * (0.25 + 0.0), abs=1e-6)  # nothing tells the unused ones


@pytest.mark.parametrize(("top", "bottom"), [(0.025, 0.025), (0.05, 0.0), (0.5, 0.5)])
def test_guesses_about_the_ends_are_right_as_often_as_in_a_simulation(top: float, bottom: float) -> None:
    generator, count = np.random.default_rng(2), 400_000
    effects = np.array([2.0, 0.0, 1.0])
    coins = generator.random(count) < 0.5
    scores = 0.8 * generator.standard_normal(count) + coins * generator.choice(effects, count)
    order = np.argsort(scores)
    highest, lowest = order[count - round(top * count) :], order[: round(bottom * count)]
    right = (coins[highest].sum() + (~coins[lowest]).sum()) / (len(highest) + len(lowest))
    assert Guesser(effects).right_at_ends(top, bottom, 0.8) == pytest.approx(right, abs=0.005)


def test_enough_right_answers_are_the_fewest_whose_bound_is_above_what_is_allowed() -> None:
    enough = enough_answers(750, 0.69, 0.01)
    assert clopper_pearson(np.array(enough), 750, 0.01) > 0.69 >= clopper_pearson(np.array(enough - 1), 750, 0.01)
    assert enough_answers(3, 0.69, 0.01) == 4  # not even all of them


@pytest.mark.parametrize(("mean", "canaries"), [(1.0, 400), pytest.param(0.5, 1000, marks=pytest.mark.slow)])
def test_noise_of_the_stated_share_is_noticed_with_the_stated_probability(mean: float, canaries: int) -> None:
    """The whole procedure notices at least as often as the best single test that the statement is about."""
    promise, generator, times = promise_of(mean), np.random.default_rng(3), 100
    power = power_of(promise, exact(mean), coins_of(canaries), 0.95, independent=True)
    assert 0 < power.noise < 1
    noticed = 0
    for _ in range(times):
        coins = generator.random(canaries) < 0.5
        scores = power.noise * generator.standard_normal(canaries) + mean * coins
        shown = evidence(scores, coins, delta=1e-5, confidence=0.95, independent=True)
        assert shown.mean is not None
        noticed += shown.mean > mean
    assert noticed >= 0.9 * times


def test_more_canaries_notice_more_and_a_weaker_adversary_less() -> None:
    promise = promise_of(1.0)
    few, many = (power_of(promise, exact(1.0), coins_of(count), 0.95, independent=True) for count in (100, 3000))
    weak = power_of(promise, exact(0.3), coins_of(3000), 0.95, independent=True)
    assert few.noise < many.noise
    assert weak.noise < many.noise
    assert few.possible < many.possible
    assert (few.conclusive, many.conclusive, weak.conclusive) == (False, True, False)


def test_five_canaries_could_show_nothing_and_say_so() -> None:
    power = power_of(promise_of(1.0), exact(1.0), coins_of(5), 0.95, independent=True)
    assert (power.noise, power.possible) == (0.0, 0.0)
    assert not power.conclusive
    assert power.canaries_needed is not None
    assert power.canaries_needed > 100


def test_as_many_canaries_as_are_said_to_be_needed_notice_half_the_noise() -> None:
    promise = promise_of(0.5)
    needed = power_of(promise, exact(0.5), coins_of(10), 0.95, independent=True).canaries_needed
    assert needed is not None
    assert power_of(promise, exact(0.5), coins_of(needed), 0.95, independent=True).noise >= HALF
    assert power_of(promise, exact(0.5), coins_of(needed // 2), 0.95, independent=True).noise < HALF


def test_no_number_of_canaries_is_named_where_the_adversary_is_too_weak() -> None:
    power = power_of(promise_of(1.0), exact(0.4), coins_of(200), 0.95, independent=True)
    assert power.canaries_needed is None


def test_the_whole_curve_is_as_good_as_the_mean_of_a_gaussian() -> None:
    """At ε = 0 the curve says how often an answer may be right, whatever the shape."""
    curve = ((delta_of_mean(1.0, 0.0), 0.0),)
    by_curve = Promise(1e-5, epsilon_of_mean(1.0, 1e-5), curve)
    assert by_curve.most_right == pytest.approx(promise_of(1.0).most_right, abs=1e-9)


def test_guesses_that_count_one_run_only_notice_less() -> None:
    promise, coins = promise_of(1.0), coins_of(1000)
    both = power_of(promise, exact(1.0), coins, 0.95, independent=True)
    one = power_of(promise, exact(1.0), coins, 0.95, independent=False)
    assert 0 < one.noise < both.noise
    assert one.canaries_needed is None


def test_what_is_noticed_is_rounded_down() -> None:
    assert noticed_noise(lambda noise: 1.0 if noise <= 0.37 else 0.0) <= 0.37
    assert noticed_noise(lambda noise: 1.0 if noise <= 0.37 else 0.0) == pytest.approx(0.37, rel=2e-3)
    assert noticed_noise(lambda noise: 0.0) == 0.0
    assert noticed_noise(lambda noise: 1.0) == 1.0
    assert NOTICED_WITH == 0.95


def test_the_noise_of_scores_is_taken_at_the_upper_end_of_what_it_may_be() -> None:
    generator = np.random.default_rng(4)
    sizes = [1 / Guesser.of(np.ones(1), generator.standard_normal(50)).effects[0] for _ in range(400)]
    assert np.mean(np.array(sizes) < 1) <= 0.08  # the stated effect is too large in one of twenty
    assert Guesser.of(np.ones(3), np.zeros(1)).effects.tolist() == [0.0]  # from one score nothing is known
    assert np.isfinite(Guesser.of(np.ones(3), np.zeros(9)).effects).all()  # there may be no noise at all
