"""Independent oracles: integration, simulation, and another library's accountant."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom, norm

from fedveil.accounting import pld
from fedveil.accounting.central_limit import central_limit_epsilon, central_limit_mean
from fedveil.accounting.claims import prifedsync_mean
from fedveil.accounting.compose import (
    Composition,
    Term,
    certified_delta,
    certify,
    composed_pld,
    composition,
    grid_interval,
    renyi_epsilon,
)
from fedveil.accounting.events import Step
from fedveil.accounting.gaussian_privacy import gaussian_delta
from fedveil.accounting.renyi import ORDERS, delta_at, term_divergences

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
    remove, add = pld.both_directions(pld.of_step(Step("poisson", noise, rate), interval))
    present = rate * norm.pdf(GRID, 1, noise) + (1 - rate) * norm.pdf(GRID, 0, noise)
    absent = norm.pdf(GRID, 0, noise)
    for epsilon in (-0.5, -0.1, 0.0, 0.1, 0.7, 2.0):
        at = np.array([epsilon])
        assert remove.deltas(at)[0] >= divergence(present, absent, epsilon) - 1e-9
        assert add.deltas(at)[0] >= divergence(absent, present, epsilon) - 1e-9


def fixed_size_sums(others: tuple[int, ...], batch: int, deviation: float) -> tuple[Values, Values]:
    """Densities of the noisy sum of `batch` of all records, the first of which is 1, or −1 in its neighbour."""
    records = [*range(len(others) + 1)]
    subsets = list(itertools.combinations(records, batch))
    first, second = np.zeros_like(GRID), np.zeros_like(GRID)
    for subset in subsets:
        rest = sum(others[record - 1] for record in subset if record)
        first += norm.pdf(GRID, rest + (0 in subset), deviation) / len(subsets)
        second += norm.pdf(GRID, rest - (0 in subset), deviation) / len(subsets)
    return first, second


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("others", list(itertools.combinations_with_replacement((-1, 0, 1), 4)))
def test_fixed_size_samples_are_never_understated(others: tuple[int, ...], epsilon: float) -> None:
    """Every composition of extreme records, one step, S = 1 and so z = σ/2: neither accountant may fall below."""
    batch, deviation = 2, 2.0
    first, second = fixed_size_sums(others, batch, deviation)
    true = max(divergence(first, second, epsilon), divergence(second, first, epsilon))
    parts = steps("without-replacement", deviation / 2, 1, batch / (len(others) + 1))
    whole = composed_pld(parts)
    assert whole is not None
    assert pld.read_delta(whole, epsilon, 1) >= true - 1e-9
    assert delta_at(term_divergences(parts[0].steps, 1.0, 1), epsilon) >= true


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 2.0])
def test_the_worst_records_attain_what_is_certified_for_one_step_of_fixed_size(epsilon: float) -> None:
    """Everyone else holds what the record is exchanged for, so that only the draw of the record shows."""
    first, second = fixed_size_sums((-1, -1, -1, -1), 2, 2.0)
    certified = certified_delta(steps("without-replacement", 1.0, 1, 2 / 5), epsilon)
    assert certified == pytest.approx(divergence(first, second, epsilon), rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
def test_composed_fixed_size_steps_against_simulation(epsilon: float) -> None:
    """The dominating pair drawn from directly: what Poisson sampling gains, its mirror image, and a loss of 0."""
    rate, noise, count = 0.3, 1.1, 4

    def exchanged(generator: np.random.Generator, draws: int) -> Values:
        shape = (draws, count)
        drawn = noise * generator.normal(size=shape) + (generator.random(shape) < rate)
        gained = subsampled_loss(drawn, rate, noise)
        gains = norm.sf(0.5, 0, noise)  # above 1/2 the loss is positive; this is how often it is without the record
        share = gains / (1 - rate * norm.sf(0.5, 1, noise) - (1 - rate) * gains)
        tail = noise * norm.isf(gains * generator.random(shape))
        mirrored = np.where(generator.random(shape) < share, -subsampled_loss(tail, rate, noise), 0.0)
        return np.where(gained > 0, gained, mirrored).sum(axis=1)

    true, error = simulated(exchanged, epsilon)
    certified = certified_delta(steps("without-replacement", noise, count, rate), epsilon)
    assert true - 4 * error <= certified <= true + 4 * error + 0.002


def test_exchanging_records_looks_the_same_from_both_sides() -> None:
    """H(ε) = 1 − e^ε + e^ε·H(−ε), which makes one direction enough."""
    (found,) = pld.distinct_directions(pld.of_step(Step("without-replacement", 0.8, 0.1), 1e-3))
    epsilons = np.linspace(0.0, 3.0, 50)
    back = -np.expm1(-epsilons) + np.exp(-epsilons) * found.deltas(epsilons)
    assert found.deltas(-epsilons) == pytest.approx(back, abs=1e-12)
    assert found.masses.sum() + found.infinite == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("sigma", "rounds"), [(1.0, 93), (0.9, 83), (0.75, 64)])
def test_prifedsyncs_rounds_lie_between_an_attained_loss_and_what_other_accountants_say(
    sigma: float, rounds: int
) -> None:
    """Below: two populations that a test tells apart, as of one step above. Above: the central limit, and Rényi."""
    parts, attained = (steps(kind, sigma, 38 * rounds, 16 / 600) for kind in ("without-replacement", "poisson"))
    whole = composed_pld(attained)
    assert whole is not None
    least = pld.both_directions(whole)[0].epsilon(1e-5)
    found = certify(parts, 1e-5)
    limit = central_limit_epsilon(parts, 1e-5)
    assert limit is not None
    assert found.accountant == "PLD"
    assert least < found.epsilon < limit < renyi_epsilon(parts, 1e-5)


def test_many_faint_fixed_size_steps_tend_to_their_central_limit() -> None:
    parts = steps("without-replacement", 5.0, 100_000, 0.001)
    assert certify(parts, 1e-5).epsilon == pytest.approx(central_limit_epsilon(parts, 1e-5), rel=1e-3)


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
