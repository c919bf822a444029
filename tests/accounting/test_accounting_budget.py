"""What may still run, and settings that keep a target."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from accounts import calibrate, plan

from fedveil.accounting.budget import (
    Costs,
    Spent,
    charge,
    check_kept,
    costs_everybody,
    may_spend,
    relations_differ,
    round_cost,
    rounds_left,
    spent_delta,
    spent_epsilon,
)
from fedveil.accounting.compose import certify
from fedveil.accounting.context import Budget
from fedveil.accounting.participation import Crowd, Round
from fedveil.core.errors import FedveilError
from fedveil.core.types import Population, Unit, View
from fedveil.mechanisms.schedules import Linear
from fedveil.method import Method
from fedveil.parts.batches import PoissonBatch, WithoutReplacement
from fedveil.parts.cohorts import Everyone, FixedSize, PoissonCohort
from fedveil.zoo import FED_AVG, FED_CDP, FED_SDP_CLIENT

POPULATION = Population((500,) * 20)
SMALL = replace(FED_CDP, cohort=FixedSize(10))
POISSON = replace(SMALL, batch=PoissonBatch(5))
CROWD = Crowd(POPULATION.clients)
BUDGET = Budget(0.3, 1e-5)


def one_round(method: Method) -> Round:
    return Round(method.declare(0, 500, 3, POPULATION.clients), method.cohort)


def cost_of(budget: Budget, method: Method = POISSON) -> Costs:
    return round_cost(one_round(method), 500, budget, CROWD)


def test_the_round_that_would_exceed_does_not_run() -> None:
    cost, rounds = cost_of(BUDGET), 0
    spent: Spent = None
    while may_spend(spent, cost, BUDGET):
        spent, rounds = charge(spent, cost), rounds + 1
    assert spent_epsilon(spent, BUDGET) <= 0.3 < spent_epsilon(charge(spent, cost), BUDGET)
    assert rounds == rounds_left(None, cost, BUDGET)
    assert spent_delta(spent, BUDGET) <= 1e-5 < spent_delta(charge(spent, cost), BUDGET)  # Geyer's form
    promised = plan(POISSON, POPULATION, 3, delta=1e-5, participation=rounds).of(Unit.RECORD, View.SERVER)
    assert promised.epsilon == spent_epsilon(spent, BUDGET)


def test_rounds_that_are_bounded_under_different_relations_do_not_add_up() -> None:
    """Coins that grow to everybody: at first a client is added or removed, in the end, on the sum of all, replaced."""
    growing = replace(FED_SDP_CLIENT, cohort=PoissonCohort(0.5, growth=Linear(1.0, 2.0)))
    first, last = (
        Round(growing.declare(round, 500, 3, POPULATION.clients), growing.cohort.at(round, growing.rounds))
        for round in (0, growing.rounds - 1)
    )
    budget = Budget(50.0, 1e-5, Unit.CLIENT, View.RELEASED)
    before, after = (round_cost(round, 500, budget, CROWD) for round in (first, last))
    assert may_spend(None, before, budget)
    assert may_spend(None, after, budget)
    assert relations_differ(first, last, 500, budget, CROWD)
    assert not relations_differ(first, first, 500, budget, CROWD)
    assert not may_spend(before, after, budget)
    assert rounds_left(before, after, budget) == 0
    assert spent_epsilon(charge(before, after), budget) == math.inf


def test_against_a_hidden_cohort_every_round_costs_but_less() -> None:
    released = Budget(0.1, 1e-5, Unit.RECORD, View.RELEASED)
    hidden = cost_of(released, replace(POISSON, cohort=PoissonCohort(0.1)))
    fitting = rounds_left(None, hidden, released)
    assert fitting > rounds_left(None, cost_of(released), released)
    spent: Spent = None
    for _ in range(fitting):
        assert may_spend(spent, hidden, released)
        spent = charge(spent, hidden)
    assert not may_spend(spent, hidden, released)
    assert spent_epsilon(spent, released) <= 0.1 < spent_epsilon(charge(spent, hidden), released)


def test_copies_of_records_use_the_budget_faster() -> None:
    doubled = round_cost(one_round(POISSON), 500, BUDGET, CROWD, copies=2)
    assert rounds_left(None, doubled, BUDGET) == rounds_left(None, cost_of(BUDGET), BUDGET) // 2


def test_a_budget_nothing_can_keep_is_refused() -> None:
    with pytest.raises(FedveilError, match=r"vacuous \(group of 500\)"):
        check_kept(one_round(POISSON), 500, Budget(1.0, 1e-5, Unit.CLIENT, View.SERVER), CROWD)
    with pytest.raises(FedveilError, match="no mechanism adds noise"):
        check_kept(one_round(FED_AVG), 500, BUDGET, CROWD)
    assert round_cost(one_round(FED_AVG), 500, BUDGET, CROWD) == ()
    assert not may_spend(None, (), BUDGET)
    assert (spent_epsilon((), BUDGET), spent_delta((), BUDGET)) == (math.inf, 1.0)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(-1.0, 1e-5), (math.nan, 1e-5), (math.inf, 1e-5), (1.0, 0.0), (1.0, 1.0)]
)
def test_impossible_budgets(epsilon: float, delta: float) -> None:
    with pytest.raises(FedveilError):
        Budget(epsilon, delta)


@pytest.mark.parametrize("batch", [SMALL.batch, PoissonBatch(5), WithoutReplacement(5)])
def test_the_least_noise_for_a_target(batch: PoissonBatch) -> None:
    method, target = replace(SMALL, batch=batch), Budget(0.8227, 1e-5)
    found = calibrate(method, POPULATION, 3, target, participation=10)
    assert found.guarantee.epsilon <= 0.8227
    assert found.method.example is not None
    less = replace(method, example=replace(found.method.example, sigma=found.value * (1 - 1.1e-3)))
    assert plan(less, POPULATION, 3, delta=1e-5, participation=10).of(target.unit, target.view).epsilon > 0.8227


def test_the_most_rounds_for_a_target() -> None:
    target = Budget(0.4, 1e-5)
    found = calibrate(POISSON, POPULATION, 3, target, solve="rounds")
    assert found.method.rounds == found.value
    assert plan(found.method, POPULATION, 3, delta=1e-5).of(target.unit, target.view).epsilon <= 0.4
    longer = plan(POISSON, POPULATION, 3, delta=1e-5, rounds=int(found.value) + 1)
    assert longer.of(target.unit, target.view).epsilon > 0.4


def test_the_largest_cohort_for_a_target() -> None:
    target = Budget(0.2, 1e-5, Unit.RECORD, View.RELEASED)
    found = calibrate(replace(POISSON, cohort=PoissonCohort(0.1)), POPULATION, 3, target, solve="cohort")
    assert found.guarantee.epsilon <= 0.2
    more = replace(POISSON, cohort=PoissonCohort(found.value * 1.003))
    assert plan(more, POPULATION, 3, delta=1e-5).of(target.unit, target.view).epsilon > 0.2
    assert calibrate(POISSON, POPULATION, 3, Budget(1.0, 1e-5), solve="cohort").value == POPULATION.clients


def test_the_largest_cohort_that_grows_still_fits_the_population() -> None:
    growing = replace(POISSON, cohort=FixedSize(4, growth=Linear(1.0, 3.0)))
    found = calibrate(growing, POPULATION, 3, Budget(10.0, 1e-5), solve="cohort")
    largest = found.method.cohort.at(99, 100).divisor(POPULATION.clients)
    assert largest == 3 * found.value <= POPULATION.clients < 3 * (found.value + 1)


def test_enough_noise_on_records_hides_a_whole_client() -> None:
    target = Budget(5.0, 1e-5, Unit.CLIENT)
    found = calibrate(SMALL, POPULATION, 3, target)
    assert 4.9 < found.guarantee.epsilon <= 5
    assert found.method.example is not None
    # The group's sums change by B·S in each of the 10,000 steps, a record's by S in 100 of them.
    plain = calibrate(SMALL, POPULATION, 3, Budget(5.0, 1e-5))
    assert found.value == pytest.approx(plain.value * 5 * 10, rel=3e-3)


def test_what_cannot_be_solved_says_why() -> None:
    for method, target, solve, words in [
        (POISSON, Budget(1.0, 1e-5, Unit.RECORD, View.ON_DEVICE), "noise", "no noise can help"),
        (replace(FED_AVG, cohort=FixedSize(10)), Budget(1.0, 1e-5), "noise", "exactly one mechanism"),
        (SMALL, Budget(0.0, 1e-5), "noise", "no finite noise"),
        (SMALL, Budget(1e-3, 1e-5), "rounds", "not even one round"),
        (SMALL, Budget(1e-3, 1e-5), "cohort", "small enough"),
        (replace(SMALL, cohort=Everyone()), Budget(1.0, 1e-5), "cohort", "no cohort to choose"),
        (SMALL, Budget(1.0, 1e-5), "luck", "solve"),
    ]:
        with pytest.raises(FedveilError, match=words):
            calibrate(method, POPULATION, 3, target, solve=solve)


def test_a_budget_of_nothing_allows_nothing() -> None:
    assert not may_spend(None, cost_of(BUDGET), Budget(0.0, 1e-5))
    assert certify((), 1e-5).epsilon == 0


def test_a_round_of_a_fixed_cohort_is_due_from_everybody_unless_a_limit_leaves_clients_out() -> None:
    budget = Budget(5.0, 1e-5, Unit.RECORD, View.RELEASED)
    for cohort, everybody in ((FixedSize(10), True), (FixedSize(10, most=3), False), (PoissonCohort(0.1), True)):
        round = Round(replace(FED_CDP, cohort=cohort).declare(0, 500, 3, POPULATION.clients), cohort)
        assert costs_everybody(round, budget, CROWD) is everybody
        assert not costs_everybody(round, replace(budget, view=View.SERVER), CROWD)
