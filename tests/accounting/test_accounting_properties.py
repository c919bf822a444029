"""What must hold whatever the numbers are."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from accounts import plan
from hypothesis import given, settings
from hypothesis import strategies as st

from fedveil.accounting.compose import Composition, Term, certified_delta, certify, composition, renyi_epsilon
from fedveil.accounting.events import Step
from fedveil.core.types import Population, Unit, View
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.schedules import Constant
from fedveil.zoo import FED_CDP

GRID = 2e-3
"""Discretisation: two values computed on different grids may disagree by this much (relative)."""

few = settings(max_examples=10)
noises, rates, counts = st.floats(0.6, 20), st.floats(0.001, 0.9), st.integers(1, 3000)
deltas = st.sampled_from([1e-7, 1e-6, 1e-5, 1e-3])


kinds = st.sampled_from(["poisson", "without-replacement"])


def sampled(kind: str, noise: float, rate: float, count: int, overflow: float = 0.0) -> Composition:
    return composition(Term(((Step(kind, noise, rate, overflow), count),)))


def at_most(first: float, second: float) -> bool:
    return first <= second * (1 + GRID) + 1e-4


@few
@given(kinds, noises, rates, counts, deltas)
def test_epsilon_falls_with_noise_and_grows_with_steps_rate_and_smaller_delta(
    kind: str, noise: float, rate: float, count: int, delta: float
) -> None:
    base = certify(sampled(kind, noise, rate, count), delta).epsilon
    assert at_most(certify(sampled(kind, noise * 1.3, rate, count), delta).epsilon, base)
    assert at_most(base, certify(sampled(kind, noise, rate, count * 2), delta).epsilon)
    assert at_most(base, certify(sampled(kind, noise, min(1.0, rate * 1.1), count), delta).epsilon)
    assert base <= certify(sampled(kind, noise, rate, count), delta / 10).epsilon + 1e-9


@few
@given(kinds, noises, rates, counts, deltas)
def test_privacy_loss_distributions_are_not_looser_than_renyi(
    kind: str, noise: float, rate: float, count: int, delta: float
) -> None:
    parts = sampled(kind, noise, rate, count)
    found = certify(parts, delta)
    if found.accountant == "PLD":
        assert at_most(found.epsilon, renyi_epsilon(parts, delta))


@few
@given(kinds, noises, rates, counts)
def test_sampling_never_costs(kind: str, noise: float, rate: float, count: int) -> None:
    plain = certify(composition(Term(((Step("gaussian", noise), count),))), 1e-5).epsilon
    assert at_most(certify(sampled(kind, noise, rate, count), 1e-5).epsilon, plain)


@few
@given(noises, rates, counts)
def test_exchanging_a_record_of_a_fixed_sample_costs_no_less_than_adding_one_to_coins(
    noise: float, rate: float, count: int
) -> None:
    exchanged, added = (certify(sampled(kind, noise, rate, count), 1e-5) for kind in ("without-replacement", "poisson"))
    if exchanged.accountant == added.accountant == "PLD":
        assert at_most(added.epsilon, exchanged.epsilon)


@few
@given(kinds, noises, rates, st.integers(1, 100), st.integers(1, 30), st.floats(0.01, 0.9))
def test_a_draw_of_the_round_never_costs(
    kind: str, noise: float, rate: float, steps: int, rounds: int, chance: float
) -> None:
    each = ((Step(kind, noise, rate), steps),)
    drawn = certify(composition(Term(each, chance, rounds)), 1e-5).epsilon
    assert at_most(drawn, certify(composition(Term(each, 1.0, rounds)), 1e-5).epsilon)
    assert at_most(drawn, certify(composition(Term(each, min(1.0, 1.1 * chance), rounds)), 1e-5).epsilon)


@few
@given(noises, rates, counts, st.floats(0, 1))
def test_cutting_batches_never_helps(noise: float, rate: float, count: int, overflow: float) -> None:
    uncut = certify(sampled("poisson", noise, rate, count), 1e-5).epsilon
    assert at_most(uncut, certify(sampled("poisson", noise, rate, count, overflow), 1e-5).epsilon)


@given(st.permutations([(1.0, 3), (1.5, 2), (2.0, 7), (1.0, 1)]))
def test_composition_has_no_order(order: list[tuple[float, int]]) -> None:
    terms = [Term(((Step("poisson", noise, 0.1), count),)) for noise, count in order]
    assert composition(*terms) == composition(*reversed(terms))


@few
@given(kinds, noises, rates, counts)
def test_delta_and_epsilon_are_inverse(kind: str, noise: float, rate: float, count: int) -> None:
    parts = sampled(kind, noise, rate, count)
    found = certify(parts, 1e-5)
    if 0 < found.epsilon < 100 and found.accountant == "PLD":
        assert certified_delta(parts, found.epsilon) <= 1e-5 * (1 + 1e-6)
        assert certified_delta(parts, found.epsilon * 0.98) > 1e-5 * 0.999


@given(st.integers(2, 12))
def test_flat_clipping_is_never_worse_than_layer_by_layer_at_equal_bound(layers: int) -> None:
    assert FED_CDP.example is not None
    layered = replace(FED_CDP, example=replace(FED_CDP.example, each_row=True))
    flat = replace(FED_CDP, example=replace(FED_CDP.example, each_row=True, clip=Clip(Constant(4.0), by="flat")))
    tables = [
        plan(method, Population((500,)), layers, delta=1e-5, rounds=5, participation=5)
        for method in (
            replace(flat, cohort=replace(flat.cohort, size=1)),
            replace(layered, cohort=replace(flat.cohort, size=1)),
        )
    ]
    for view in View:
        assert tables[0].of(Unit.RECORD, view).epsilon < tables[1].of(Unit.RECORD, view).epsilon


@few
@given(st.floats(1e-3, 1e3), st.integers(1, 10**9), st.floats(1e-12, 0.5))
def test_plain_gaussians_are_one_gaussian(noise: float, count: int, delta: float) -> None:
    many = certify(composition(Term(((Step("gaussian", noise), count),))), delta)
    once = certify(composition(Term(((Step("gaussian", noise / math.sqrt(count)), 1),))), delta)
    assert many.epsilon == pytest.approx(once.epsilon, rel=1e-9)


@settings(max_examples=8)
@given(
    kinds,
    st.floats(1e-3, 1e3),
    st.floats(1e-9, 1),
    st.integers(1, 10**8),
    st.sampled_from([1e-300, 1e-12, 1e-5, 0.5, 0.999]),
)
def test_extremes_give_a_number_with_a_certificate_or_infinity_with_a_reason(
    kind: str, noise: float, rate: float, count: int, delta: float
) -> None:
    found = certify(sampled(kind, noise, rate, count), delta)
    assert found.epsilon >= 0
    assert math.isfinite(found.epsilon) or found.reason
