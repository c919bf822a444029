"""Trade-off functions: closed forms, bounds, conversions."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import norm

from fedveil.accounting import pld, tradeoff
from fedveil.accounting.compose import Term, certify, composition
from fedveil.accounting.events import Step
from fedveil.core.errors import FedveilError

LEVELS: npt.NDArray[np.float64] = np.linspace(0, 1, 101)


def exact(mean: float) -> npt.NDArray[np.float64]:
    return np.asarray(norm.cdf(norm.ppf(1 - LEVELS) - mean), dtype=np.float64)


@pytest.mark.parametrize("mean", [0.1, 1.0, 1.8, 4.0])
def test_a_gaussian_curve_lies_just_below_the_true_one(mean: float) -> None:
    gap = exact(mean) - tradeoff.gaussian(mean)(LEVELS)
    assert gap.min() >= -1e-12
    assert gap.max() < 1e-3
    mirrored = tradeoff.gaussian(mean).inverse()(LEVELS)
    assert mirrored == pytest.approx(tradeoff.gaussian(mean)(LEVELS), abs=1e-3)


def test_subsampling_as_the_paper_defines_it() -> None:
    """C_p(f) is symmetric, below f_p and its inverse, and follows f_p until the fixed point of f."""
    base, rate = tradeoff.gaussian(1.8), 0.35
    found, partial = tradeoff.subsampled(base, rate), tradeoff.mixed(base, rate)
    assert np.all(found(LEVELS) <= partial(LEVELS) + 1e-12)
    assert np.all(found(LEVELS) <= partial.inverse()(LEVELS) + 1e-12)
    assert found.inverse()(LEVELS) == pytest.approx(found(LEVELS), abs=1e-4)
    fixed = float(norm.cdf(-0.9))
    low = LEVELS[fixed > LEVELS]
    assert found(low) == pytest.approx(partial(low), abs=1e-4)
    end = float(partial(fixed))
    middle = np.linspace(fixed, end, 5)
    assert found(middle) == pytest.approx(fixed + end - middle, abs=1e-3)
    assert np.all(np.diff(found.errors) / np.diff(found.levels) <= 1e-9)


def test_composing_gaussians_adds_their_squares() -> None:
    found = tradeoff.composed(tradeoff.gaussian(0.5), 4)
    assert np.all(found(LEVELS) <= exact(1.0) + 1e-12)
    assert found(LEVELS) == pytest.approx(exact(1.0), abs=2e-3)


def test_a_composed_subsample_agrees_with_the_accountant() -> None:
    """Once, they are the same; composed, C_p(f) is looser, because it mixes the two directions at every step."""
    once = tradeoff.subsampled(tradeoff.gaussian(1.0), 0.1)
    step = pld.of_step(Step("poisson", 1.0, 0.1), 1e-3)
    ten, tenfold = tradeoff.composed(once, 10), pld.composed_of([(step, 10)])
    for epsilon in (0.2, 0.5, 1.0):
        at = np.array([epsilon])
        assert pld.read_delta(step, epsilon, 1) == pytest.approx(float(tradeoff.curve_delta(once, at)[0]), abs=1e-4)
        assert pld.read_delta(tenfold, epsilon, 10) <= tradeoff.curve_delta(ten, at)[0] + 1e-4


def test_curves_and_loss_distributions_convert_both_ways() -> None:
    curve = tradeoff.gaussian(1.0)
    back = tradeoff.from_pld(tradeoff.to_pld(curve))
    assert back(LEVELS) == pytest.approx(curve(LEVELS), abs=1e-3)
    epsilon = pld.read_epsilon(tradeoff.to_pld(curve), 1e-3, 1)
    assert epsilon == pytest.approx(tradeoff.epsilon_of_mean(1.0, 1e-3), abs=0.02)


def test_means_and_epsilons_convert_both_ways() -> None:
    for mean in (0.2, 1.0, 3.0):
        epsilon = tradeoff.epsilon_of_mean(mean, 1e-5)
        assert tradeoff.delta_of_mean(mean, epsilon) == pytest.approx(1e-5, rel=1e-6)
        assert tradeoff.mean_of_epsilon(epsilon, 1e-5) == pytest.approx(mean, rel=1e-6)
        assert certify(composition(Term(((Step("gaussian", 1 / mean), 1),))), 1e-5).epsilon == epsilon
    assert tradeoff.epsilon_of_mean(0.0, 1e-5) == 0


def test_total_variation_bounds_a_curve() -> None:
    base = tradeoff.gaussian(2.0)
    found = tradeoff.at_least(base, 0.09)
    assert found(LEVELS) == pytest.approx(np.maximum(base(LEVELS), np.clip(1 - LEVELS - 0.09, 0, 1)), abs=1e-9)


def test_federated_bounds_as_stated_and_as_they_hold() -> None:
    local, rate, rounds, clients = tradeoff.composed(tradeoff.gaussian(0.3), 4), 0.4, 4, 6
    strong_stated = tradeoff.strong_as_stated(local, rate, rounds, clients)(LEVELS)
    weak_stated = tradeoff.weak_as_stated(local, rate, rounds)(LEVELS)
    weak = tradeoff.weak_that_holds(local, rate, rounds)(LEVELS)
    strong = tradeoff.strong_that_holds(local, rounds)(LEVELS)
    assert np.all(strong_stated <= weak_stated + 1e-3)
    assert np.all(strong <= weak + 1e-3)
    assert np.all(strong_stated <= strong + 1e-3)  # composing over the peers is much looser
    floor = tradeoff.composed(tradeoff.at_least(local, rate), rounds)(LEVELS)
    assert np.all(floor <= weak + 2e-3)
    assert strong == pytest.approx(exact(0.3 * 4), abs=5e-3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tradeoff.gaussian(-1),
        lambda: tradeoff.gaussian(math.nan),
        lambda: tradeoff.subsampled(tradeoff.gaussian(1.0), 1.2),
        lambda: tradeoff.mixed(tradeoff.gaussian(1.0), 0.0),
        lambda: tradeoff.at_least(tradeoff.gaussian(1.0), 1.5),
        lambda: tradeoff.composed(tradeoff.gaussian(1.0), 0),
        lambda: tradeoff.epsilon_of_mean(math.inf, 1e-5),
        lambda: tradeoff.mean_of_epsilon(1.0, 0.0),
    ],
)
def test_bad_input_is_refused(call: object) -> None:
    with pytest.raises(FedveilError):
        call()  # type: ignore[operator]
