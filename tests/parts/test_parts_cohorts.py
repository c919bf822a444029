"""Who takes part in a round."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedveil.core.errors import FedveilError
from fedveil.parts.cohorts import Everyone, FixedSize, PoissonCohort


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
