"""What is promised, and when guesses contradict it."""

from __future__ import annotations

import math

import pytest

from fedveil.attacks.audit.bounds import Accuracy, Evidence, Guessed
from fedveil.attacks.audit.promise import Excess, Promise


def shown(right: float, guessed: float = 0.0) -> Evidence:
    return Evidence(1e-5, 0.95, (Guessed(10, 9, guessed),), (Accuracy(0.0, right),))


def test_a_promise_is_contradicted_at_its_own_delta_first() -> None:
    promise = Promise(1e-5, 1.0, ((0.1, 0.1),))
    broken = promise.excess(shown(0.9, guessed=1.5))
    assert broken == Excess(1e-5, pytest.approx(math.log(0.9 / 0.1), abs=1e-3), 1.0)


def test_a_promise_that_holds_at_its_delta_can_be_contradicted_elsewhere_on_its_curve() -> None:
    lower = math.log((0.6 - 0.1) / 0.4)
    promise = Promise(1e-5, 1.0, ((0.1, 0.5 * lower), (0.3, 0.0)))
    assert promise.excess(shown(0.6)) == Excess(0.1, pytest.approx(lower), pytest.approx(0.5 * lower))
    assert Promise(1e-5, 1.0, ((0.1, 2 * lower),)).excess(shown(0.6)) is None


def test_guesses_counted_at_the_audits_delta_say_nothing_at_a_larger_one() -> None:
    assert Promise(1e-5, 2.0, ((0.1, 0.5),)).excess(shown(0.5, guessed=1.5)) is None


def test_nothing_contradicts_an_infinite_epsilon() -> None:
    promise = Promise(1e-5, math.inf)
    assert not promise.finite
    assert promise.excess(shown(0.99, guessed=9.0)) is None
    assert promise.most_right == 1.0


def test_the_share_of_right_answers_is_bounded_by_the_tightest_point() -> None:
    assert Promise(0.0, 0.0).most_right == 0.5
    assert Promise(0.0, math.log(3)).most_right == pytest.approx(0.75)
    assert Promise(0.1, 0.0).most_right == pytest.approx(0.55)
    assert Promise(0.0, math.log(3), ((0.1, 0.0),)).most_right == pytest.approx(0.55)
    assert Promise(0.0, math.log(3), mean=0.0).most_right == pytest.approx(0.5)
    assert Promise(1e-5, 1e4).most_right == 1.0
