"""Plans chosen by whoever saw earlier answers: what is reserved, what that costs, and that no choice beats it."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_accountant import Law, Values, gaussian_epsilon_of, law_of_pair, power

from fedveil.accounting.alone import PlanBounds
from fedveil.accounting.budget import largest
from fedveil.accounting.compose import Composition, Term, certify, composed_pld, composition, total_steps
from fedveil.accounting.context import Budget
from fedveil.accounting.dominating_gaussian import dominating_mean
from fedveil.accounting.events import Step
from fedveil.accounting.gaussian_privacy import gaussian_delta
from fedveil.accounting.lifetime_filter import (
    COVERING_SHARE,
    PaidAnswer,
    Reserved,
    copies_needed,
    plan_counts_as,
    reserved,
)
from fedveil.accounting.pld import read_deltas
from fedveil.core.guarantee import Relation

EXAMPLE = ("example", Relation.ADD_OR_REMOVE)


def steps(kind: str, noise: float, rate: float = 1.0, count: int = 1, size: int = 0) -> Composition:
    return composition(Term(((Step(kind, noise, rate, size=size), count),)))


def answers(plan: str, whole: Composition, each: Composition, count: int) -> list[PaidAnswer]:
    return [PaidAnswer(plan, PlanBounds(((EXAMPLE, whole),)), PlanBounds(((EXAMPLE, each),)))] * count


# The Gaussian that covers a composition


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(["poisson", "without-replacement", "hidden-record"]),
    st.floats(0.7, 6),
    st.floats(0.005, 0.9),
    st.integers(1, 300),
    st.sampled_from([1e-9, 1e-7, 1e-5]),
)
def test_a_covering_gaussian_covers_at_every_epsilon(
    kind: str, noise: float, rate: float, count: int, share: float
) -> None:
    parts = steps(kind, noise, rate, count)
    mean = dominating_mean(parts, share)
    if math.isinf(mean):
        return
    whole = composed_pld(parts)
    assert whole is not None
    epsilons = np.concatenate(([0.0], np.geomspace(1e-3, 30, 300)))
    stated = np.max(read_deltas(whole, epsilons, total_steps(parts)), axis=0)
    covering = (1 - share) * gaussians(mean, epsilons) + share
    assert (stated <= covering * (1 + 1e-9) + 1e-13).all()


def gaussians(mean: float, epsilons: Values) -> Values:
    return np.array([gaussian_delta(1 / mean, float(epsilon)) for epsilon in epsilons])


def test_plain_gaussians_cover_themselves_and_nothing_is_covered_by_nothing() -> None:
    assert dominating_mean(steps("gaussian", 4.0, count=4), 1e-7) == pytest.approx(0.5)
    assert dominating_mean((), 1e-7) == 0


def test_a_smaller_share_needs_a_larger_gaussian() -> None:
    parts = steps("poisson", 1.0, 0.01, 500)
    means = [dominating_mean(parts, share) for share in (1e-4, 1e-6, 1e-8, 1e-10)]
    assert all(first <= second for first, second in pairwise(means))
    assert means[0] < 0.9 * means[-1]


# What is reserved


def test_a_plan_that_was_begun_counts_whole_and_only_once() -> None:
    each, whole = steps("poisson", 2.0, 0.1, 5), steps("poisson", 2.0, 0.1, 50)
    assert reserved(answers("a", whole, each, 1), 1e-5).parts == (whole,)
    assert reserved(answers("a", whole, each, 10), 1e-5).parts == (whole,)
    assert reserved(answers("a", whole, each, 11), 1e-5).parts == (whole, whole)
    assert reserved([], 1e-5).epsilon(1e-5) == 0


def test_the_first_plan_costs_no_more_than_it_would_alone() -> None:
    whole = steps("poisson", 1.0, 0.02, 400)
    assert Reserved((whole,)).epsilon(1e-5) == certify(whole, 1e-5).epsilon


def test_plans_of_plain_gaussians_cost_what_they_would_if_chosen_beforehand() -> None:
    parts = tuple(steps("gaussian", noise, count=10) for noise in (20.0, 30.0, 25.0))
    mean = math.sqrt(sum(10 / noise**2 for noise in (20.0, 30.0, 25.0)))
    plain = gaussian_epsilon_of(1 / mean, (1 - COVERING_SHARE) * 1e-5)
    assert Reserved(parts).epsilon(1e-5) == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize(
    ("parts", "two", "four"),
    [
        (steps("poisson", 1.0, 0.01, 1000), 0.04, 0.09),
        (steps("poisson", 2.0, 0.05, 400), 0.02, 0.04),
        (steps("poisson", 4.0, 1 / 6, 8), 0.04, 0.08),
        (steps("poisson", 0.8, 0.02, 200), 0.12, 0.30),
        (steps("allocated", 7.746, count=100, size=100), 0.02, 0.02),
        (steps("without-replacement", 2.0, 0.05, 400), 0.02, 0.02),
    ],
)
def test_what_choosing_by_earlier_answers_costs(parts: Composition, two: float, four: float) -> None:
    """Documented as the price beside plain composition: `docs/guarantees.md`."""
    for count, most in ((2, two), (4, four)):
        plain = certify(composition(*(parts * count)), 1e-5).epsilon
        price = Reserved((parts,) * count).epsilon(1e-5) / plain - 1
        assert 0 <= price <= most


def test_bounds_under_another_relation_than_the_first_plans_do_not_count() -> None:
    parts = steps("gaussian", 50.0)
    other = ("example", Relation.REPLACE_ONE)
    first = answers("a", parts, parts, 1)
    second = PaidAnswer("b", PlanBounds(((other, parts),)), PlanBounds(((other, parts),)))
    assert reserved([*first, second], 1e-5).parts is None
    assert not reserved([*first, second], 1e-5).fits(Budget(1e3, 1e-5))
    assert reserved([second], 1e-5).parts == (parts,)


def test_an_answer_that_nothing_bounds_leaves_no_budget() -> None:
    nothing = PaidAnswer("a", PlanBounds((), ("no noise",)), PlanBounds(()))
    assert reserved([nothing], 1e-5).epsilon(1e-5) == math.inf
    assert not reserved([nothing], 1e-5).fits(Budget(1e6, 1e-5))


def test_copies_hold_every_step_and_a_step_that_a_plan_has_not_is_held_by_none() -> None:
    strong, weak = Step("gaussian", 2.0), Step("gaussian", 8.0)
    whole = composition(Term(((strong, 1), (weak, 3))))
    assert copies_needed(whole, Counter({weak: 3})) == 1
    assert copies_needed(whole, Counter({weak: 4})) == 2
    assert copies_needed(whole, Counter({strong: 3, weak: 1})) == 3
    assert copies_needed(whole, Counter({Step("gaussian", 8.0 * (1 + 1e-12)): 1})) == 1
    assert copies_needed(whole, Counter({Step("gaussian", 1.0): 1})) is None


def test_a_plan_asked_too_often_costs_more_by_steps_of_one_kind_or_by_whole_copies() -> None:
    budget = Budget(10.0, 1e-5)
    one, many = steps("gaussian", 8.0), steps("gaussian", 8.0, count=4)
    plan, each = PlanBounds(((EXAMPLE, many),)), PlanBounds(((EXAMPLE, one),))
    assert plan_counts_as(plan, [each] * 2, budget) == many
    assert plan_counts_as(plan, [each] * 5, budget) == steps("gaussian", 8.0, count=5)
    both = composition(Term(((Step("gaussian", 2.0), 1), (Step("gaussian", 8.0), 3))))
    twice = plan_counts_as(PlanBounds(((EXAMPLE, both),)), [each] * 4, budget)
    assert twice == composition(Term(((Step("gaussian", 2.0), 2), (Step("gaussian", 8.0), 6))))


# No choice beats it


def pair_of(rate: float) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    return [(1 - rate, 0.0), (rate, 1.0)] if rate < 1 else [(1.0, 1.0)], [(1.0, 0.0)]


def law(noise: float, rate: float, count: int, add: bool) -> Law:
    with_unit, without = pair_of(rate)
    pair = (without, with_unit) if add else (with_unit, without)
    return power(law_of_pair(*pair, noise, 2e-3, cells=40_000), count)


@pytest.mark.parametrize("add", [False, True])
def test_whoever_chooses_the_second_plan_by_the_first_ones_answers_stays_within_the_budget(add: bool) -> None:
    """Every second plan fills the budget to the brim; for each outcome of the first the worst of them is taken."""
    budget = Budget(3.0, 1e-3)
    first = (2.0, 0.3, 20)
    menu: list[tuple[float, float, int]] = []
    for noise, rate in ((0.8, 0.02), (1.0, 0.1), (2.0, 0.3), (4.0, 1.0), (1.5, 0.05), (0.6, 0.01)):
        kind = "poisson" if rate < 1 else "gaussian"

        def fits(count: int, kind: str = kind, noise: float = noise, rate: float = rate) -> bool:
            return Reserved((steps("poisson", *first), steps(kind, noise, rate, count))).fits(budget)

        admitted = largest(fits, 1000)
        menu += [(noise, rate, admitted)] if admitted else []
    assert len(menu) > 3
    start = law(*first, add)
    lefts = budget.epsilon - start.losses
    choices = np.array([signed_deltas(law(*plan, add), lefts) for plan in menu])
    worst = float(start.masses @ choices.max(axis=0))
    best_alone = float((choices @ start.masses).max())
    assert best_alone < worst <= budget.delta  # choosing does gain something, and the budget holds
    assert add or worst > 0.5 * budget.delta  # adding is the milder direction


def signed_deltas(distribution: Law, epsilons: Values) -> Values:
    """The divergence at any real ε: P's mass above it, less e^ε times Q's."""
    upper = np.append(np.cumsum(distribution.masses[::-1])[::-1], 0.0)
    lower = np.append(np.cumsum((distribution.masses * np.exp(-distribution.losses))[::-1])[::-1], 0.0)
    first = np.searchsorted(distribution.losses, epsilons, side="right")
    return np.asarray(np.maximum(upper[first] - np.exp(epsilons) * lower[first], 0.0))
