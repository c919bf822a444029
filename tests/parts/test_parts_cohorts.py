"""Who takes part in a round."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedveil.core.errors import FedveilError
from fedveil.mechanisms.schedules import Constant, Exponential, Linear, Schedule, Staircase
from fedveil.parts.cohorts import Cohort, Everyone, FixedSize, PoissonCohort


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(clients=st.integers(1, 200), share=st.floats(0, 1), seed=st.integers(0, 9))
def test_a_fixed_cohort_has_exactly_its_size_distinct_and_sorted(clients: int, share: float, seed: int) -> None:
    size = max(1, round(share * clients))
    cohort = FixedSize(size).draw(range(clients), generator(seed))
    assert len(cohort) == len(set(cohort)) == size
    assert cohort == sorted(cohort)
    assert all(type(client) is int and 0 <= client < clients for client in cohort)


def test_a_fixed_cohort_takes_every_client_equally_often() -> None:
    drawing = generator(1)
    counts = np.bincount([c for _ in range(4000) for c in FixedSize(3).draw(range(12), drawing)], minlength=12)
    assert np.abs(counts - 1000).max() < 5 * math.sqrt(4000 * 0.25 * 0.75)


@given(clients=st.integers(1, 200), rate=st.floats(0.01, 1), seed=st.integers(0, 9))
def test_a_poisson_cohort_is_distinct_and_sorted(clients: int, rate: float, seed: int) -> None:
    cohort = PoissonCohort(rate).draw(range(clients), generator(seed))
    assert cohort == sorted(set(cohort))
    assert all(type(client) is int and 0 <= client < clients for client in cohort)


def test_poisson_coins_are_fair_and_independent() -> None:
    drawing = generator(2)
    drawn = np.zeros((3000, 20))
    for row in drawn:
        row[PoissonCohort(0.3).draw(range(20), drawing)] = 1
    assert np.abs(drawn.mean(axis=0) - 0.3).max() < 5 * math.sqrt(0.21 / 3000)
    assert drawn.sum(axis=1).var() == pytest.approx(20 * 0.21, rel=0.15)
    off_diagonal = np.corrcoef(drawn.T)[~np.eye(20, dtype=bool)]
    assert np.abs(off_diagonal).max() < 5 / math.sqrt(3000)


def test_a_poisson_cohort_can_be_empty_and_at_rate_one_is_everyone() -> None:
    drawing = generator(3)
    assert [] in [PoissonCohort(0.1).draw(range(3), drawing) for _ in range(50)]
    assert PoissonCohort(1.0).draw(range(7), drawing) == list(range(7))


@pytest.mark.parametrize("sampler", [FixedSize(3), FixedSize(9), PoissonCohort(0.4), Everyone()])
@given(candidates=st.sets(st.integers(0, 9)).map(sorted), seed=st.integers(0, 9))
def test_what_is_drawn_can_be_drawn(sampler: Cohort, candidates: list[int], seed: int) -> None:
    cohort = sampler.draw(candidates, generator(seed))
    assert sampler.can_draw(cohort, candidates)
    assert not sampler.can_draw([*cohort, 10], candidates)  # nobody else can be drawn


@pytest.mark.parametrize(
    ("sampler", "possible"), [(FixedSize(3), False), (PoissonCohort(0.4), True), (Everyone(), False)]
)
def test_only_a_poisson_cohort_can_be_smaller_than_declared(sampler: Cohort, possible: bool) -> None:
    assert sampler.can_draw([1, 4], [1, 3, 4, 7]) is possible


def test_everyone_is_everyone_and_draws_nothing() -> None:
    drawing = generator(4)
    before = drawing.bit_generator.state
    assert Everyone().draw(range(5), drawing) == [0, 1, 2, 3, 4]
    assert drawing.bit_generator.state == before


@pytest.mark.parametrize(
    ("cohort", "divisor"), [(PoissonCohort(0.25), 50.0), (FixedSize(30), 30.0), (Everyone(), 200.0)]
)
def test_the_divisor_is_a_constant_of_the_declaration(cohort: PoissonCohort, divisor: float) -> None:
    assert cohort.divisor(200) == divisor


def test_the_same_generator_gives_the_same_cohort() -> None:
    for cohort in (PoissonCohort(0.5), FixedSize(5)):
        assert cohort.draw(range(50), generator(5)) == cohort.draw(range(50), generator(5))


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.0001, math.nan, math.inf])
def test_a_rate_that_is_no_probability_is_refused(rate: float) -> None:
    with pytest.raises(FedveilError, match="rate must be above 0 and at most 1"):
        PoissonCohort(rate)


@pytest.mark.parametrize("size", [0, -3])
def test_an_empty_fixed_cohort_is_refused(size: int) -> None:
    with pytest.raises(FedveilError, match="size must be a positive"):
        FixedSize(size)


def test_a_cohort_larger_than_the_population_is_refused_and_one_as_large_is_not() -> None:
    FixedSize(10).check(10)
    with pytest.raises(FedveilError, match=r"^cohort.size: 11 clients a round, but there are only 10$"):
        FixedSize(11).check(10)
    PoissonCohort(0.5).check(1)
    Everyone().check(1)


def test_only_candidates_are_drawn_and_few_candidates_make_a_small_cohort() -> None:
    assert set(FixedSize(3).draw([2, 5, 9, 11], generator(1))) <= {2, 5, 9, 11}
    assert FixedSize(3).draw([4, 8], generator(1)) == [4, 8]
    assert FixedSize(3).draw([], generator(1)) == []
    assert set(PoissonCohort(0.5).draw([1, 7, 8], generator(2))) <= {1, 7, 8}


@pytest.mark.parametrize("most", [0, -1])
def test_a_limit_that_lets_nobody_take_part_is_refused(most: int) -> None:
    with pytest.raises(FedveilError, match="most must be a positive"):
        FixedSize(3, most=most)
    with pytest.raises(FedveilError, match="most must be a positive"):
        PoissonCohort(0.5, most=most)


# Cohorts that grow.


@pytest.mark.parametrize(
    ("growth", "sizes"),
    [
        (Constant(1.0), [10, 10, 10, 10, 10]),
        (Linear(1.0, 3.0), [10, 15, 20, 25, 30]),
        (Linear(1.0, 0.01), [10, 8, 5, 3, 1]),  # 7.525, 5.05, 2.575, and never nobody
        (Exponential(1.0, 16.0), [10, 20, 40, 80, 160]),
        (Staircase(1.0, 2.0, every=2), [10, 10, 20, 20, 40]),
    ],
    ids=["level", "linear", "shrinking", "exponential", "staircase"],
)
def test_a_fixed_cohort_grows_by_a_public_schedule_and_its_divisor_with_it(growth: Schedule, sizes: list[int]) -> None:
    cohort = FixedSize(10, growth=growth)
    for round, size in enumerate(sizes):
        now = cohort.at(round, 5)
        assert len(now.draw(range(200), generator(round))) == size
        assert now.divisor(200) == size


@pytest.mark.parametrize(
    ("growth", "rates"),
    [
        (Constant(1.0), [0.2, 0.2, 0.2]),
        (Linear(1.0, 3.0), [0.2, 0.4, 0.6]),
        (Linear(1.0, 9.0), [0.2, 1.0, 1.0]),  # a probability is at most one
    ],
    ids=["level", "linear", "capped"],
)
def test_a_poisson_cohort_grows_in_its_probability_and_its_divisor_with_it(
    growth: Schedule, rates: list[float]
) -> None:
    for round, rate in enumerate(rates):
        now = PoissonCohort(0.2, growth=growth).at(round, 3)
        assert now.rate == pytest.approx(rate)
        assert now.divisor(50) == pytest.approx(50 * rate)
        drawn = [len(now.draw(range(50), generator(seed))) for seed in range(200)]
        assert np.mean(drawn) == pytest.approx(50 * rate, abs=5 * math.sqrt(50 * 0.25 / 200))


def test_growing_keeps_the_limit_of_rounds_and_a_number_stands_for_its_schedule() -> None:
    assert FixedSize(3, most=2, growth=Linear(1.0, 2.0)).at(1, 2).most == 2
    assert PoissonCohort(0.3, most=2, growth=Linear(1.0, 2.0)).at(1, 2).most == 2
    assert FixedSize(3, growth=2.0) == FixedSize(3, growth=Constant(2.0))  # type: ignore[arg-type]
    assert Everyone().at(3, 9) == Everyone()


def test_growth_beyond_all_clients_is_refused() -> None:
    with pytest.raises(FedveilError, match=r"^cohort\.growth: .* clients in round 9$"):
        FixedSize(3, growth=Exponential(1.0, 1e12)).at(9, 10)
