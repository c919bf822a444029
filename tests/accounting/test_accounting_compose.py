"""Mechanisms, bad numbers, and a library kept quiet without being gagged."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from absl import logging as library_log
from dp_accounting.pld import privacy_loss_distribution as library
from scipy import fft
from scipy.stats import binom

from fedveil.accounting import pld, renyi
from fedveil.accounting.central_limit import central_limit_mean
from fedveil.accounting.claims import prifedsync_mean
from fedveil.accounting.compose import (
    Term,
    certified_delta,
    certify,
    composed_pld,
    composition,
    describe,
    grid_interval,
    renyi_epsilon,
    total_steps,
)
from fedveil.accounting.events import Step, overflow_probability, relation_of, row_steps, sum_steps
from fedveil.accounting.fourier import spectrum_power
from fedveil.accounting.gaussian_privacy import gaussian_epsilon
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Relation
from fedveil.core.types import Declaration, Sampling, Unit

SAMPLING = Sampling("poisson", 500, 5, 30, 100)
DECLARED = Declaration("example", Unit.RECORD, 100, 4.0, 8.0, 16.0, 4.0, SAMPLING)


def test_steps_by_sampler() -> None:
    ((step, count),) = sum_steps(DECLARED)
    assert (step.kind, step.noise_multiplier, step.rate, count) == ("poisson", 2.0, 0.01, 100)
    partition = replace(DECLARED, sampling=Sampling("partition", 500, 5, 5, 1))
    assert sum_steps(partition) == ((Step("gaussian", 2.0), 1),)
    everything = replace(DECLARED, sampling=Sampling("all", 500, 500, 500, 100))
    assert sum_steps(everything) == ((Step("gaussian", 2.0), 100),)
    fixed = replace(DECLARED, sampling=Sampling("without-replacement", 500, 5, 5, 100))
    assert sum_steps(fixed) == ((Step("without-replacement", 1.0, 0.01), 100),)
    assert relation_of(fixed.sampling) is Relation.REPLACE_ONE
    assert row_steps(DECLARED) == ((Step("gaussian", 0.5), 100),)
    assert row_steps(fixed) == ((Step("gaussian", 0.25), 100),)


def test_overflow_is_rounded_up_and_never_down() -> None:
    for cap in (5, 8, 12, 20, 40):
        exact = float(binom.sf(cap - 1, 499, 0.01))
        assert exact <= overflow_probability(replace(SAMPLING, cap=cap)) <= max(1e-9, 1.2 * exact)
    assert overflow_probability(replace(SAMPLING, cap=500)) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"sum_std": 0.0},
        {"sum_std": math.nan},
        {"sum_std": math.inf},
        {"sensitivity": 0.0},
        {"sensitivity": math.nan},
        {"steps": -1},
        {"sampling": replace(SAMPLING, batch=501)},
        {"sampling": replace(SAMPLING, kind="guess")},
        {"sampling": replace(SAMPLING, cap=0)},
        {"sampling": replace(SAMPLING, records=0)},
    ],
)
def test_declarations_that_cannot_be_accounted(change: dict[str, float]) -> None:
    with pytest.raises(FedveilError):
        sum_steps(replace(DECLARED, **change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments",
    [
        ("gaussian", 0.0),
        ("gaussian", math.nan),
        ("gaussian", -1.0),
        ("gaussian", math.inf),
        ("poisson", 1.0, 0.0),
        ("poisson", 1.0, 1.01),
        ("poisson", 1.0, math.nan),
        ("poisson", 1.0, 0.5, 2.0),
        ("laplace", 1.0),
    ],
)
def test_steps_that_cannot_be(arguments: tuple[str, float]) -> None:
    with pytest.raises(FedveilError):
        Step(*arguments)


def test_compositions_that_cannot_be() -> None:
    step = Step("gaussian", 1.0)
    for term in (Term(((step, -1),)), Term(((step, 1),), 1.5), Term(((step, 1),), 0.0), Term(((step, 1),), 1.0, -1)):
        with pytest.raises(FedveilError):
            composition(term)
    with pytest.raises(FedveilError):
        certify(composition(Term(((step, 1),))), 1.5)
    for chance in (0.0, 1.5, math.nan):
        with pytest.raises(FedveilError):
            pld.seen_draw(pld.of_step(step, 1e-3), chance)


def test_absurd_compositions_are_infinite_with_a_reason() -> None:
    absurd = certify(composition(Term(((Step("poisson", 1.0, 0.01), 10**13),))), 1e-5)
    assert absurd.epsilon == math.inf
    assert "more than can be accounted" in absurd.reason
    assert certified_delta(composition(Term(((Step("poisson", 1.0, 0.01), 10**13),))), 1.0) == 1
    faint = certify(composition(Term(((Step("gaussian", 1e-5), 1),))), 1e-5)
    assert faint.epsilon == math.inf
    assert faint.reason


def test_a_delta_below_double_precision_is_read_from_tilted_losses() -> None:
    """0.34298 is the limit of the library's discretisation at ever finer grids, composed in 64-bit mantissas."""
    parts = composition(Term(((Step("poisson", 6.0, 0.01), 1000),)))
    tiny = certify(parts, 1e-12)
    assert tiny.accountant == "PLD"
    assert 0.34298 <= tiny.epsilon <= 0.3432
    many = composition(Term(((Step("poisson", 7.746, 0.01), 10_000),)))
    each = [certify(many, delta) for delta in (1e-5, 1e-8, 1e-10, 1e-12, 1e-14)]
    assert all(one.accountant == "PLD" for one in each)
    assert all(before.epsilon < after.epsilon for before, after in pairwise(each))
    assert each[-1].epsilon < renyi_epsilon(many, 1e-14)
    for one, delta in zip(each[2:], (1e-10, 1e-12, 1e-14), strict=True):
        assert certified_delta(many, one.epsilon) == pytest.approx(delta, rel=0.01)


def test_tilted_and_plain_losses_say_the_same_where_both_can() -> None:
    drawn = composition(Term(((Step("poisson", 1.9, 0.02), 21),), 0.07, 67))
    law = composition(Term(((Step("gaussian", 3.0), 1),), law=(0.1, 0.3, 0.4, 0.2)))
    for parts in (drawn, law, composition(Term(((Step("without-replacement", 1.1, 0.02), 300),)))):
        plain = composed_pld(parts)
        for tilt in (0.5, 5.0):
            tilted = composed_pld(parts, 1, tilt)
            assert plain is not None
            assert tilted is not None
            for epsilon in (0.3, 0.6, 1.0):
                steps = total_steps(parts)
                found = pld.read_delta(tilted, epsilon, steps)
                assert found == pytest.approx(pld.read_delta(plain, epsilon, steps), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("count", [2, 3, 97, 1_000, 20_000])
@pytest.mark.parametrize(("noise", "rate"), [(1.1, 0.02), (7.746, 0.01)])
def test_the_librarys_own_composition_agrees(noise: float, rate: float, count: int) -> None:
    parts = composition(Term(((Step("poisson", noise, rate), count),)))
    interval = grid_interval(parts)
    assert interval is not None
    theirs = library.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=interval
    ).self_compose(count)
    for delta in (1e-3, 1e-5):
        found = certify(parts, delta).epsilon
        assert found == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("count", [2, 10, 100])
@pytest.mark.parametrize(
    "step", [Step("poisson", 0.3, 0.01), Step("without-replacement", 0.3, 0.01), Step("without-replacement", 1.0, 0.03)]
)
def test_rounding_of_a_transform_stays_far_below_what_is_charged_for_it(step: Step, count: int) -> None:
    """Against extended precision, where steps whose loss is mostly one value leave the largest errors."""
    interval = grid_interval(composition(Term(((step, count),))))
    assert interval is not None
    masses = pld.distinct_directions(pld.of_step(step, interval))[0].masses
    size = 1 << (len(masses) - 1).bit_length() + 2

    def repeated(values: Any) -> Any:
        return fft.irfft(spectrum_power(fft.rfft(values, size), count), size)

    error = repeated(masses) - repeated(masses.astype(np.longdouble))
    assert 0 < float(np.abs(error).sum()) <= pld.FOURIER_ROUNDING * (count + 1) / 2


def test_one_more_round_is_on_the_same_grid_and_costs_more() -> None:
    for step in (
        Step("poisson", 1.1, 0.02),
        Step("poisson", 7.746, 0.01, 1e-9),
        Step("without-replacement", 1.1, 0.02),
    ):
        for chance in (1.0, 0.3):
            each = [composition(Term(((step, 100),), chance, rounds)) for rounds in range(2, 30)]
            assert len({grid_interval(parts) for parts in each}) == 1
            found = [certify(parts, 1e-5).epsilon for parts in each]
            assert all(before < after for before, after in pairwise(found))


def test_noise_that_differs_by_rounding_is_one_mechanism() -> None:
    terms = [Term(((Step("poisson", 2.0 * (1 + k * 1e-16), 0.1), 5),), 0.5, 3) for k in range(5)]
    found = composition(*terms)
    assert len(found) == 1
    assert describe(found) == "15 rounds × [drawn with probability 0.5: 5 × Poisson(0.1) Gaussian(z = 2)]"
    assert describe(()) == "nothing was released"


def test_only_the_expected_notices_are_kept_from_the_user(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("absl").addHandler(caplog.handler)
    try:
        with renyi.quiet():
            library_log.warning("_compute_log_a_frac failed to converge after %d iterations", 3)
            library_log.warning("Negative Renyi divergence of %s", -1)
        library_log.warning("_compute_log_a_frac failed to converge after %d iterations", 4)
    finally:
        logging.getLogger("absl").removeHandler(caplog.handler)
    heard = {record.getMessage() for record in caplog.records}
    assert heard == {"Negative Renyi divergence of -1", "_compute_log_a_frac failed to converge after 4 iterations"}


def test_negative_and_unfinished_renyi_orders_never_lower_epsilon() -> None:
    step = Step("poisson", 0.5, 1e-7)
    found = renyi.term_divergences(((step, 1),), 1.0, 1)
    assert (found > 0).all()
    assert renyi.epsilon_at(found * math.inf, 1e-5) == math.inf
    assert renyi.delta_at(found * math.inf, 1.0) == 1.0


@pytest.mark.parametrize("kind", ["poisson", "without-replacement"])
def test_enormous_noise_is_accounted_without_an_error_and_never_below_its_floor(kind: str) -> None:
    """z beyond 6e7, where the library's logarithms fail: what no sampling would cost is still a bound."""
    faint = [certify(composition(Term(((Step(kind, noise, 1e-6), 5),))), 1e-12).epsilon for noise in (1e6, 1e8, 1e10)]
    assert all(0 < epsilon < 0.03 for epsilon in faint)


@pytest.mark.parametrize("noise", [1e8, 1e12, 1e15])
def test_the_central_limit_of_enormous_noise_is_a_number(noise: float) -> None:
    limits = central_limit_mean(composition(Term(((Step("without-replacement", noise, 0.1), 5),))))
    assert limits is not None
    assert 0 <= limits < 1e-6
    assert 0 <= prifedsync_mean(600, 16, 38, 93, noise) < 1e-6


def test_a_plain_gaussian_with_enormous_noise_costs_next_to_nothing_and_warns_of_nothing() -> None:
    assert 0 < gaussian_epsilon(31_622.0, 1e-5) < 1e-3


@pytest.mark.parametrize("less", [{"noise_multiplier": 2.0}, {"rate": 0.1}, {"overflow": 0.0}])
def test_a_step_covers_what_reveals_less_in_any_way_and_is_not_covered_by_it(less: dict[str, float]) -> None:
    step = Step("poisson", 1.0, 0.2, 1e-3)
    other = replace(step, **less)
    assert step.covers(step)
    assert step.covers(other)
    assert not other.covers(step)
    assert not step.covers(Step("gaussian", 1.0))


@pytest.mark.parametrize("noise", [1e6, 1e12, 1e13, 1e25])
@pytest.mark.parametrize("delta", [1e-5, 1e-100, 1e-300])
def test_epsilon_of_noise_beyond_measure_is_no_smaller_than_the_truth(noise: float, delta: float) -> None:
    with mpmath.workdps(400):
        mean, epsilon = 1 / mpmath.mpf(noise), mpmath.mpf(gaussian_epsilon(noise, delta))
        upper, lower = mean / 2 - epsilon / mean, -mean / 2 - epsilon / mean
        assert mpmath.ncdf(upper) - mpmath.exp(epsilon) * mpmath.ncdf(lower) <= delta


@pytest.mark.parametrize("noise", [0.01, 0.3, 1.0, 1.9946, 7.7, 100.0])
@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-12, 1e-40])
def test_epsilon_of_a_gaussian_is_exact_and_rounded_up(noise: float, delta: float) -> None:
    with mpmath.workdps(80):
        mean = 1 / mpmath.mpf(noise)

        def excess(epsilon: float) -> mpmath.mpf:
            upper, lower = mean / 2 - epsilon / mean, -mean / 2 - epsilon / mean
            return mpmath.ncdf(upper) - mpmath.exp(epsilon) * mpmath.ncdf(lower) - delta

        epsilon = gaussian_epsilon(noise, delta)
        assert excess(mpmath.mpf(epsilon)) <= 0
        assert epsilon < 1e-11 or excess(mpmath.mpf(epsilon) * (1 - mpmath.mpf("3e-10")) - 2e-12) > 0
