"""Cohorts that are not drawn as their sampler says are noticed, sound ones are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fedveil.engine.cohort_memory import CohortMemory
from fedveil.parts.cohorts import Cohort, Everyone, FixedSize, PoissonCohort

Draw = Callable[[Cohort, list[int], np.random.Generator, int], list[int]]
CLIENTS = 20


def honest(sampler: Cohort, candidates: list[int], generator: np.random.Generator, round: int) -> list[int]:
    return sampler.draw(candidates, generator)


def problems(
    sampler: Cohort, draw: Draw = honest, clients: int = CLIENTS, rounds: int = 300, seed: int = 1
) -> set[str]:
    """What is said over many rounds, with the candidates that the sampler's limit leaves."""
    memory, generator = CohortMemory(clients), np.random.default_rng(seed)
    taken, said = [0] * clients, set()
    for round in range(rounds):
        candidates = [client for client in range(clients) if sampler.most is None or taken[client] < sampler.most]
        if not candidates:
            break
        cohort = draw(sampler, candidates, generator, round)
        said.add(memory.problem(sampler, cohort, candidates))
        for client in cohort:
            taken[client] += 1
    return {problem for problem in said if problem is not None}


@pytest.mark.parametrize("clients", [1, 2, 5, 20, 1000])
@pytest.mark.parametrize("most", [None, 3])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("kind", [FixedSize, PoissonCohort])
def test_cohorts_that_are_drawn_at_random_are_fine(kind: type, share: float, most: int | None, clients: int) -> None:
    sampler = PoissonCohort(share, most) if kind is PoissonCohort else FixedSize(max(int(share * clients), 1), most)
    for seed in range(3):
        assert problems(sampler, clients=clients, rounds=100, seed=seed) == set()


def test_everyone_is_the_same_cohort_always() -> None:
    assert problems(Everyone()) == set()


def test_the_same_cohort_always_is_noticed() -> None:
    for sampler in (FixedSize(4), PoissonCohort(0.3)):
        same = sampler.draw(list(range(CLIENTS)), np.random.default_rng(7))
        assert problems(sampler, lambda *_, same=same: same, rounds=12)  # type: ignore[misc]


def test_cohorts_in_turn_are_noticed() -> None:
    def in_turn(sampler: Cohort, candidates: list[int], generator: np.random.Generator, round: int) -> list[int]:
        return sampler.draw(candidates, np.random.default_rng(round % 3))

    assert problems(FixedSize(4), in_turn, rounds=60)


def test_a_client_that_is_always_or_never_drawn_is_noticed() -> None:
    def always(sampler: Cohort, candidates: list[int], generator: np.random.Generator, round: int) -> list[int]:
        return sorted([0, *(1 + generator.permutation(CLIENTS - 1)[:3])])

    def never(sampler: Cohort, candidates: list[int], generator: np.random.Generator, round: int) -> list[int]:
        return sorted(1 + generator.permutation(CLIENTS - 1)[:10])

    assert problems(FixedSize(4), always, rounds=30)
    assert problems(FixedSize(10), never, rounds=60)


def test_cohorts_of_one_size_are_not_poisson_cohorts() -> None:
    def fixed(sampler: Cohort, candidates: list[int], generator: np.random.Generator, round: int) -> list[int]:
        return FixedSize(6).draw(candidates, generator)

    assert problems(PoissonCohort(0.3), fixed, rounds=30)


def test_who_cannot_be_drawn_any_more_is_noticed_at_once() -> None:
    memory, sampler = CohortMemory(4), FixedSize(2, most=1)
    assert memory.problem(sampler, [0, 1], [0, 1, 2, 3]) is None
    assert memory.problem(sampler, [0, 2], [0, 1, 2, 3]) == "a client takes part in more than 1 rounds"
    assert CohortMemory(4).problem(sampler, [0, 1], [1, 2, 3]) == "the cohort is none that can be drawn"
    assert CohortMemory(4).problem(sampler, [1, 2, 3], [1, 2, 3]) == "the cohort is none that can be drawn"
