"""The law of how often a client is drawn under a limit, against enumeration and simulation of the sampler that runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

from fedveil.accounting import drawn_rounds
from fedveil.accounting.compose import Term, certify, composition
from fedveil.accounting.drawn_rounds import law_of_coins, law_of_fixed_size
from fedveil.accounting.events import Step
from fedveil.parts.cohorts import FixedSize

Values = npt.NDArray[np.float64]


def tails(law: tuple[float, ...] | Values) -> Values:
    """P(number ≥ 0), P(number ≥ 1), …"""
    return np.cumsum(np.asarray(law)[::-1])[::-1]


def enumerated(clients: int, size: int, most: int, times: int) -> Values:
    """The first client's number, over every sequence of cohorts of labelled clients."""
    states = {(0,) * clients: 1.0}
    for _ in range(times):
        after: dict[tuple[int, ...], float] = {}
        for taken, weight in states.items():
            candidates = [client for client in range(clients) if taken[client] < most]
            cohorts = list(combinations(candidates, min(size, len(candidates))))
            for cohort in cohorts:
                key = tuple(number + (client in cohort) for client, number in enumerate(taken))
                after[key] = after.get(key, 0.0) + weight / len(cohorts)
        states = after
    law = np.zeros(most + 1)
    for taken, weight in states.items():
        law[taken[0]] += weight
    return law


def simulated(clients: int, size: int, most: int, times: int, trainings: int) -> Values:
    cohort, generator, counts = FixedSize(size, most), np.random.default_rng(7), np.zeros(most + 1)
    for _ in range(trainings):
        taken = np.zeros(clients, dtype=np.int64)
        for _ in range(times):
            taken[cohort.draw([int(client) for client in np.flatnonzero(taken < most)], generator)] += 1
        counts += np.bincount(taken, minlength=most + 1)
    return np.asarray(counts / counts.sum())


def epsilon(law: tuple[float, ...] | Values, noise: float, delta: float) -> float:
    steps = ((Step("gaussian", noise), 1),)
    return certify(composition(Term(steps, law=tuple(float(weight) for weight in law))), delta).epsilon


@pytest.fixture
def many_clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if no training were small enough to be followed exactly."""
    monkeypatch.setattr(drawn_rounds, "MOST_TRANSITIONS", 0)
    law_of_fixed_size.cache_clear()
    yield
    law_of_fixed_size.cache_clear()


TINY = [(2, 1, 2, 3), (3, 1, 2, 5), (4, 2, 2, 3), (4, 2, 3, 5), (5, 3, 2, 3), (5, 1, 2, 7), (4, 3, 3, 6)]


@pytest.mark.parametrize(("clients", "size", "most", "times"), TINY)
def test_few_clients_have_the_law_of_every_possible_training(clients: int, size: int, most: int, times: int) -> None:
    law = law_of_fixed_size(times, size, clients, most)
    assert np.allclose(law, enumerated(clients, size, most, times), atol=1e-8)
    assert np.all(tails(law) >= tails(enumerated(clients, size, most, times)) - 1e-12)


@pytest.mark.usefixtures("many_clients")
@pytest.mark.parametrize(("clients", "size", "most", "times"), [*TINY, (6, 2, 3, 8), (1, 1, 2, 4), (3, 3, 2, 5)])
def test_the_bounds_for_many_clients_hold_for_few(clients: int, size: int, most: int, times: int) -> None:
    law = law_of_fixed_size(times, size, clients, most)
    assert np.all(tails(law) >= tails(enumerated(clients, size, most, times)) - 1e-12)


@pytest.mark.parametrize(
    ("clients", "size", "most", "times"),
    [(18, 3, 4, 18), (30, 6, 3, 12), (12, 3, 5, 15), (25, 2, 3, 30), (6, 2, 7, 17)],
)
def test_the_bounds_for_many_clients_are_never_below_the_exact_law(
    clients: int, size: int, most: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = law_of_fixed_size(times, size, clients, most)
    monkeypatch.setattr(drawn_rounds, "MOST_TRANSITIONS", 0)
    bound = law_of_fixed_size.__wrapped__(times, size, clients, most)
    assert bound != exact
    assert np.all(tails(bound) >= tails(exact) - 1e-9)


@pytest.mark.parametrize(
    ("clients", "size", "most", "times", "noise", "delta"),
    [
        (300, 40, 6, 25, 2.0, 1e-5),
        (400, 20, 5, 60, 1.0, 1e-6),
        (600, 150, 8, 20, 5.0, 1e-4),
        (500, 5, 2, 80, 3.0, 1e-8),
    ],
)
def test_with_hundreds_of_clients_epsilon_is_that_of_the_sampler_that_runs(
    clients: int, size: int, most: int, times: int, noise: float, delta: float
) -> None:
    truth = epsilon(simulated(clients, size, most, times, 40), noise, delta)
    assert 0.997 * truth <= epsilon(law_of_fixed_size(times, size, clients, most), noise, delta) <= 1.02 * truth


def test_nobody_is_left_out_before_anybody_can_have_reached_the_limit() -> None:
    assert law_of_fixed_size(6, 170, 431, 9) == law_of_coins(6, 170 / 431, 9)


def test_numbers_are_told_apart_where_clients_are_and_not_up_to_a_limit_that_none_reaches() -> None:
    law = law_of_coins(5000, 0.001, 2000)
    assert np.arange(len(law)) @ law == pytest.approx(5.0, rel=0.02)
    assert law[-1] < 1e-30
    assert np.all(tails(law) >= binom.sf(np.arange(-1, 2000), 5000, 0.001) * (1 - 1e-9))


def test_a_limit_that_is_all_but_reached_by_everybody_is_reached() -> None:
    law = law_of_fixed_size(100, 100, 1000, 10)
    assert law[-1] > 0.97
    assert sum(law) == pytest.approx(1.0, abs=1e-12)


def test_a_peer_that_is_alone_has_a_law() -> None:
    assert law_of_fixed_size(4, 1, 0, 13)[-1] == 1.0


@pytest.mark.parametrize(("noise", "delta"), [(4.0, 1e-5), (1.0, 1e-10), (0.3, 1e-6)])
def test_gaussians_by_a_law_are_in_closed_form_what_their_losses_say(noise: float, delta: float) -> None:
    law = law_of_fixed_size(20, 40, 300, 6)
    exact = epsilon(law, noise, delta)
    one_more = composition(Term(((Step("gaussian", noise), 1),), law=law), Term(((Step("gaussian", 1e5), 1),)))
    assert exact <= certify(one_more, delta).epsilon <= exact * 1.005 + 1e-3


def test_rounds_that_surely_happen_are_no_draw() -> None:
    steps = ((Step("gaussian", 0.2), 1),)
    surely = certify(composition(Term(steps, law=(0.0, 0.0, 0.0, 1.0))), 1e-9)
    assert surely == certify(composition(Term(steps, 1.0, 3)), 1e-9)
    assert not surely.by_renyi
