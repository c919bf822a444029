"""Independent oracles: integration, simulation, and another library's accountant."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom, norm

from fedveil.accounting import losses
from fedveil.accounting.claims import prifedsync_mean
from fedveil.accounting.compose import (
    Composition,
    Term,
    central_limit_mean,
    certified_delta,
    certify,
    composition,
    gaussian_delta,
    grid_interval,
)
from fedveil.accounting.events import Step
from fedveil.accounting.renyi import ORDERS, term_divergences

Values = npt.NDArray[np.float64]
GRID: Values = np.linspace(-30, 30, 60_001)


def steps(kind: str, noise: float, count: int, rate: float = 1.0, overflow: float = 0.0) -> Composition:
    return composition(Term(((Step(kind, noise, rate, overflow), count),)))


def divergence(first: Values, second: Values, epsilon: float) -> float:
    """∫ (p − e^ε q)⁺ on the grid."""
    return float(np.sum(np.maximum(first - np.exp(epsilon) * second, 0.0)) * (GRID[1] - GRID[0]))


def simulated(
    losses_of: Callable[[np.random.Generator, int], Values], epsilon: float, draws: int = 400_000
) -> tuple[float, float]:
    """E[(1 − e^(ε − loss))⁺] under the upper distribution, with its standard error."""
    values = np.maximum(-np.expm1(epsilon - losses_of(np.random.default_rng(7), draws)), 0.0)
    return float(values.mean()), float(values.std() / np.sqrt(draws))


def subsampled_loss(samples: Values, rate: float, noise: float) -> Values:
    """log of ((1−q)N(0, z²) + q N(1, z²)) / N(0, z²)"""
    return np.logaddexp(np.log1p(-rate), np.log(rate) + (2 * samples - 1) / (2 * noise**2))


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
def test_composed_poisson_steps_against_simulation(epsilon: float) -> None:
    rate, noise, count = 0.3, 1.1, 4

    def removed(generator: np.random.Generator, draws: int) -> Values:
        shift = generator.random((draws, count)) < rate
        return subsampled_loss(noise * generator.normal(size=(draws, count)) + shift, rate, noise).sum(axis=1)

    def added(generator: np.random.Generator, draws: int) -> Values:
        return -subsampled_loss(noise * generator.normal(size=(draws, count)), rate, noise).sum(axis=1)

    found = [simulated(way, epsilon) for way in (removed, added)]
    true, error = max(found)
    certified = certified_delta(steps("poisson", noise, count, rate), epsilon)
    assert true - 4 * error <= certified <= true + 4 * error + 0.002


@pytest.mark.parametrize("cap", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.2, 0.8, 1.5])
def test_a_cut_batch_is_never_understated(cap: int, epsilon: float) -> None:
    """Worst case by hand: everyone else pulls against the record, so that being pushed out costs 2."""
    rate, noise, others = 0.4, 1.5, 4
    within, without = np.zeros_like(GRID), np.zeros_like(GRID)
    for drawn in range(others + 1):
        weight = binom.pmf(drawn, others, rate)
        alone = norm.pdf(GRID, -min(drawn, cap), noise)
        without += weight * alone
        kept = min(1.0, cap / (drawn + 1))  # the record stays in a cut batch with this probability
        joined = kept * norm.pdf(GRID, 1 - min(drawn, cap - 1), noise) + (1 - kept) * alone
        within += weight * (rate * joined + (1 - rate) * alone)
    true = max(divergence(within, without, epsilon), divergence(without, within, epsilon))
    overflow = float(binom.sf(cap - 1, others, rate))
    ignored = certified_delta(steps("poisson", noise, 1, rate), epsilon)
    assert true <= certified_delta(steps("poisson", noise, 1, rate, overflow), epsilon) + 1e-9
    assert ignored <= certified_delta(steps("poisson", noise, 1, rate, overflow), epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 0.4, 1.0])
def test_a_draw_that_shows_is_amplified_by_no_more_than_the_draw(epsilon: float) -> None:
    """A client that is not drawn leaves no noise behind either, so its absence can be seen: δ = p·H(P‖Q), exactly."""
    chance, noise = 0.3, 1.0
    certified = certified_delta(composition(Term(((Step("gaussian", noise), 1),), chance)), epsilon)
    true = chance * gaussian_delta(noise, epsilon)
    assert true <= certified <= true * 1.01 + 1e-9
    # The formula for a draw that stays hidden would promise too much here.
    hidden = certified_delta(steps("poisson", noise, 1, chance), epsilon)
    assert hidden < 0.9 * true


def test_rounds_with_a_draw_against_simulation() -> None:
    chance, rate, noise, count, rounds, epsilon = 0.4, 0.5, 1.0, 2, 3, 0.7

    def removed(generator: np.random.Generator, draws: int) -> Values:
        shape = (draws, rounds, count)
        samples = noise * generator.normal(size=shape) + (generator.random(shape) < rate)
        taken = generator.random((draws, rounds)) < chance
        return (subsampled_loss(samples, rate, noise).sum(axis=2) * taken).sum(axis=1)

    true, error = simulated(removed, epsilon)
    certified = certified_delta(composition(Term(((Step("poisson", noise, rate), count),), chance, rounds)), epsilon)
    assert true - 4 * error <= certified <= true + 4 * error + 0.003


def test_every_mechanism_dominates_its_exact_divergence_in_both_directions() -> None:
    noise, rate = 1.3, 0.2
    interval = grid_interval(steps("poisson", noise, 1, rate))
    assert interval is not None
    remove, add = losses.directions(losses.of_step(Step("poisson", noise, rate), interval))
    present = rate * norm.pdf(GRID, 1, noise) + (1 - rate) * norm.pdf(GRID, 0, noise)
    absent = norm.pdf(GRID, 0, noise)
    for epsilon in (-0.5, -0.1, 0.0, 0.1, 0.7, 2.0):
        at = np.array([epsilon])
        assert remove.deltas(at)[0] >= divergence(present, absent, epsilon) - 1e-9
        assert add.deltas(at)[0] >= divergence(absent, present, epsilon) - 1e-9


def test_fixed_size_samples_against_enumeration() -> None:
    """Replace-one, B of N without replacement, two extreme records, one step: Rényi must not understate."""
    records, batch, deviation = 5, 2, 2.0  # S = 1, so z = σ/2
    first, second = np.zeros_like(GRID), np.zeros_like(GRID)
    subsets = list(itertools.combinations(range(records), batch))
    for subset in subsets:
        first += norm.pdf(GRID, 1.0 if 0 in subset else 0.0, deviation) / len(subsets)
        second += norm.pdf(GRID, -1.0 if 0 in subset else 0.0, deviation) / len(subsets)
    for epsilon in (0.2, 0.5, 1.0):
        true = max(divergence(first, second, epsilon), divergence(second, first, epsilon))
        assert certified_delta(steps("without-replacement", deviation / 2, 1, batch / records), epsilon) >= true


@pytest.mark.parametrize("chance", [0.01, 0.3, 1.0])
def test_renyi_divergences_of_drawn_rounds_have_their_closed_form(chance: float) -> None:
    """A coin that is seen: D_α = log(1 − p + p·e^((α−1)·D))/(α − 1), with D = L·α/(2z²) for L Gaussian steps."""
    found = term_divergences(((Step("gaussian", 8.0), 3),), chance, 5)
    orders = ORDERS[ORDERS < 64]
    inside = 1 - chance + chance * np.exp((orders - 1) * 3 * orders / (2 * 8.0**2))
    assert found[: len(orders)] == pytest.approx(5 * np.log(inside) / (orders - 1), rel=1e-6)


def test_the_central_limit_of_fixed_size_samples_is_prifedsyncs_theorem() -> None:
    limit = central_limit_mean(steps("without-replacement", 0.9, 38 * 83, 16 / 600))
    assert limit == pytest.approx(prifedsync_mean(600, 16, 38, 83, 0.9), rel=1e-9)


@pytest.mark.parametrize(
    ("noise", "rate", "count", "upper"),
    [(1.0, 0.01, 1000, 1.8383716), (4.0, 0.05, 2000, 2.3310021), (7.746, 0.01, 10_000, 0.4631057)],
)
def test_opacus_agrees(noise: float, rate: float, count: int, upper: float) -> None:
    """`PRVAccountant.get_epsilon(1e-5, eps_error=0.01)` of Opacus 1.6.0, which lies up to 0.02 above the truth."""
    mine = certify(steps("poisson", noise, count, rate), 1e-5)
    assert mine.accountant == "PLD"
    assert upper - 0.021 <= mine.epsilon <= upper + 1e-3
