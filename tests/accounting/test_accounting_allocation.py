"""Random allocation: its loss distribution against simulation, and never below it."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from accounts import plan
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from fedveil.accounting.compose import Composition, Term, certified_delta, certify, composition
from fedveil.accounting.events import Step, allocation_overflow, sum_steps
from fedveil.accounting.gaussian_privacy import gaussian_delta
from fedveil.core.errors import FedveilError
from fedveil.core.types import Declaration, Population, Sampling, Unit, View
from fedveil.zoo import FED_CDP, FED_CDP_ALLOCATED

Values = npt.NDArray[np.float64]


def rounds(steps: int, noise: float, times: int, overflow: float = 0.0) -> Composition:
    return composition(Term(((Step("allocated", noise, overflow=overflow, size=steps), times),)))


def simulated(steps: int, noise: float, times: int, epsilon: float, draws: int) -> list[tuple[float, float]]:
    """(mean, standard error) of both divergences, from the pair itself."""
    generator, found = np.random.default_rng(11), []
    for shifted in (True, False):
        loss: Values = np.zeros(draws)
        for _ in range(times):
            x = noise * generator.standard_normal((draws, steps))
            if shifted:
                x[np.arange(draws), generator.integers(steps, size=draws)] += 1
            ratios = np.exp((2 * x - 1) / (2 * noise**2)).mean(axis=1)
            loss += np.log(ratios) if shifted else -np.log(ratios)
        values = np.maximum(-np.expm1(epsilon - loss), 0.0)
        found.append((float(values.mean()), float(values.std() / math.sqrt(draws))))
    return found


@pytest.mark.parametrize(
    ("steps", "noise", "times", "epsilon"),
    [(10, 1.5, 1, 0.3), (10, 1.5, 4, 1.0), (2, 1.0, 3, 0.5), (50, 2.0, 3, 0.3), (30, 0.8, 1, 1.0)],
)
def test_rounds_of_allocated_batches_against_simulation(steps: int, noise: float, times: int, epsilon: float) -> None:
    true, error = max(simulated(steps, noise, times, epsilon, 100_000))
    found = certified_delta(rounds(steps, noise, times), epsilon)
    assert true - 4 * error <= found <= true + 4 * error + 1e-3


@pytest.mark.parametrize(
    ("steps", "noise", "times", "low", "high"),
    [(100, math.sqrt(60), 100, 0.4510, 0.4524), (10, 1.5, 20, 4.64, 4.667), (50, 2.0, 50, 2.13, 2.146)],
)
def test_values_of_an_earlier_computation_and_its_simulation(
    steps: int, noise: float, times: int, low: float, high: float
) -> None:
    """By another program with other grids: 0.4521, 4.664 and 2.144, and 0.4528 ± 0.0006 by simulation for the first."""
    assert low <= certify(rounds(steps, noise, times), 1e-5).epsilon <= high


def test_two_steps_have_their_exact_divergence() -> None:
    """One round of two steps in the plane, by quadrature."""
    noise = 1.2
    axis = np.linspace(-9, 10, 761)
    x, y = np.meshgrid(axis, axis)
    absent = np.exp(-(x**2 + y**2) / (2 * noise**2)) / (2 * math.pi * noise**2)
    ratios = (np.exp((2 * x - 1) / (2 * noise**2)) + np.exp((2 * y - 1) / (2 * noise**2))) / 2
    cell = (axis[1] - axis[0]) ** 2
    for epsilon in (0.0, 0.2, 0.6):
        both = [np.maximum(ratios - math.exp(epsilon), 0.0), np.maximum(1 - math.exp(epsilon) * ratios, 0.0)]
        true = max(float((absent * each).sum() * cell) for each in both)
        assert true - 1e-6 <= certified_delta(rounds(2, noise, 1), epsilon) <= true * 1.005 + 1e-6


@settings(max_examples=3, deadline=None)
@given(st.floats(0.8, 10.0), st.integers(2, 60), st.integers(1, 30))
def test_allocation_costs_less_with_more_steps_and_noise_and_never_more_than_a_known_step(
    noise: float, steps: int, times: int
) -> None:
    base = certify(rounds(steps, noise, times), 1e-5).epsilon
    for less in (rounds(steps + 5, noise, times), rounds(steps, noise * 1.2, times)):
        assert certify(less, 1e-5).epsilon <= base * 1.003 + 1e-3
    assert base <= certify(rounds(steps, noise, times + 2), 1e-5).epsilon * 1.003 + 1e-3
    known = certify(composition(Term(((Step("gaussian", noise), times),))), 1e-5).epsilon
    assert base <= known * 1.003 + 1e-3
    assert base <= certify(rounds(steps, noise, times, 0.3), 1e-5).epsilon * 1.003 + 1e-3


def test_overflow_of_any_step_is_charged() -> None:
    sampling = Sampling("allocated", 500, 5, 12, 1)
    exact = 100 * float(binom.sf(11, 499, 0.01))
    assert exact <= allocation_overflow(sampling, 100) <= 1.2 * exact
    assert allocation_overflow(Sampling("allocated", 10, 5, 10, 1), 2) == 0
    with pytest.raises(FedveilError):
        allocation_overflow(Sampling("allocated", 500, 5, 0, 1), 100)
    declared = Declaration("example", Unit.RECORD, 100, 1.0, 1.0, 4.0, 0.0, sampling)
    assert sum_steps(declared) == ((Step("allocated", 4.0, 1.0, allocation_overflow(sampling, 100), 100), 1),)


def test_a_filled_batch_pushes_a_record_out_and_is_never_understated() -> None:
    """Two steps of one slot, one other record that pulls the other way; who stays in a full step is a coin."""
    noise, epsilon = 1.5, 0.4
    axis: Values = np.linspace(-10, 10, 401)
    x, y = np.meshgrid(axis, axis)

    def shown(first: float, second: float) -> Values:
        return np.asarray(np.exp(-((x - first) ** 2 + (y - second) ** 2) / (2 * noise**2)) / (2 * math.pi * noise**2))

    without = (shown(-1, 0) + shown(0, -1)) / 2
    present = sum((shown(1, -1), shown(-1, 1), (shown(1, 0) + shown(-1, 0)) / 2, (shown(0, 1) + shown(0, -1)) / 2))
    present = present / 4
    cell = (axis[1] - axis[0]) ** 2
    true = max(
        float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * cell)
        for p, q in ((present, without), (without, present))
    )
    overflow = allocation_overflow(Sampling("allocated", 2, 1, 1, 1), 2)
    assert overflow == 1
    found = certified_delta(rounds(2, noise, 1, overflow), epsilon)
    assert true <= found
    assert found == pytest.approx(gaussian_delta(noise / 2, epsilon), rel=0.01)


def test_fed_cdps_setting_has_about_its_claimed_epsilon_with_allocated_batches() -> None:
    population = Population((500,) * 1000)
    cells = [
        plan(method, population, 3, delta=1e-5).of(Unit.RECORD, View.SERVER) for method in (FED_CDP_ALLOCATED, FED_CDP)
    ]
    assert cells[0].composition == ("100 × Allocated(1 of 100, cut with probability ≤ 1.1e-08) Gaussian(z = 7.746)")
    assert 0.4510 <= cells[0].epsilon <= 0.453
    assert cells[1].epsilon > 5
    shorter = [
        plan(FED_CDP_ALLOCATED, population, 3, delta=1e-5, rounds=n).of(Unit.RECORD, View.SERVER) for n in (5, 20)
    ]
    assert all(a.epsilon < b.epsilon for a, b in pairwise([*shorter, cells[0]]))
    device = plan(FED_CDP_ALLOCATED, population, 3, delta=1e-5).of(Unit.RECORD, View.ON_DEVICE)
    assert "not for allocated batches" in device.reason
