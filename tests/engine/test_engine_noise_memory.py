"""What a process remembers shows reports, batches and noise that are not as they should be, and no sound ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from fedveil.core.streams import Streams
from fedveil.core.types import Sampling
from fedveil.data.dataset import Examples
from fedveil.data.row_lists import RowLists
from fedveil.engine.noise_memory import NoiseMemory
from fedveil.engine.sites import Sites
from fedveil.parts.batches import WithoutReplacement
from fedveil.parts.local_training import LocalTraining
from fedveil.zoo import FED_CDP

STD = 5.0


def report_noise(generator: torch.Generator, level: float = 1.0, clients: int = 4) -> Tensor:
    """On its grid."""
    cells = (level * 2**24 * torch.randn(clients, 1, generator=generator, dtype=torch.float64)).round()
    return cells * (STD / 2**24)


def owners(round: int, clients: int = 4) -> list[tuple[int, int]]:
    return [(client, round) for client in range(clients)]


def test_reports_without_noise_or_with_half_of_it_are_not_confirmed() -> None:
    generator = torch.Generator().manual_seed(1)
    good, half = NoiseMemory(), NoiseMemory()
    assert not NoiseMemory().confirms_reports(torch.zeros(1, 1), STD, [(0, 0)])
    for round in range(200):
        assert good.confirms_reports(report_noise(generator), STD, owners(round))
    assert not all(half.confirms_reports(report_noise(generator, 0.5), STD, owners(round)) for round in range(200))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_noise_on_reports_that_returns_is_not_confirmed(sign: float) -> None:
    memory, noise = NoiseMemory(), report_noise(torch.Generator().manual_seed(1))
    assert memory.confirms_reports(noise, STD, owners(0))
    assert not memory.confirms_reports(sign * noise, STD, owners(1))


def test_a_few_reports_may_have_the_same_noise_by_chance() -> None:
    memory, generator = NoiseMemory(), torch.Generator().manual_seed(1)
    first = report_noise(generator, clients=100)
    second = torch.cat([first[:3], report_noise(generator, clients=97)])
    assert memory.confirms_reports(first, STD, owners(0, 100))
    assert memory.confirms_reports(second, STD, owners(1, 100))


def test_a_client_that_is_computed_again_is_counted_once() -> None:
    memory, noise = NoiseMemory(), report_noise(torch.Generator().manual_seed(1))
    for _ in range(50):
        assert memory.confirms_reports(noise, STD, owners(0))
    assert memory.reports == 4


def shapes(draw: Callable[[tuple[int, int]], Tensor], rounds: int) -> bool:
    memory = NoiseMemory()
    return all(
        memory.confirms_shape(draw((4, 2_000)).abs().sum(dim=1), 2_000, owners(round)) for round in range(rounds)
    )


def test_gaussian_noise_has_the_shape_of_a_gaussian() -> None:
    generator = torch.Generator().manual_seed(1)
    assert shapes(lambda size: torch.randn(size, generator=generator), 200)


@pytest.mark.parametrize("kind", ["uniform", "laplace", "signs"])
def test_noise_of_another_shape_and_the_same_size_is_not_confirmed(kind: str) -> None:
    numbers = np.random.default_rng(1)
    draw = {
        "uniform": lambda size: numbers.uniform(-(3**0.5), 3**0.5, size),
        "laplace": lambda size: numbers.laplace(0, 0.5**0.5, size),
        "signs": lambda size: numbers.choice([-1.0, 1.0], size),
    }[kind]
    assert not shapes(lambda size: torch.from_numpy(draw(size)), 3)


def test_a_handful_of_coordinates_says_nothing_of_their_shape() -> None:
    assert NoiseMemory().confirms_shape(torch.tensor([20.0]), 20, [(0, 0)])


def batches(sizes: np.ndarray, records: int, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Records `[K, steps, slots]`, and how many of them are meant."""
    drawn = np.zeros((*sizes.shape, records), np.int64)
    for where in np.ndindex(sizes.shape):
        chosen = np.sort(generator.permutation(records)[: sizes[where]])
        drawn[where][: len(chosen)] = chosen
    return torch.from_numpy(drawn), torch.from_numpy(sizes)


@pytest.mark.parametrize(("records", "expected"), [(500, 5), (60, 30), (300, 100)])
def test_poisson_batches_are_confirmed_and_batches_of_fixed_size_are_not(records: int, expected: int) -> None:
    generator, kinds = np.random.default_rng(1), [Sampling("poisson", records, expected, records, 10)] * 4
    poisson, fixed = NoiseMemory(), NoiseMemory()
    for round in range(30):
        sizes = generator.binomial(records, expected / records, (4, 10))
        assert poisson.confirms_batches(*batches(sizes, records, generator), kinds, owners(round))
    constant = np.full((4, 10), expected)
    assert not all(
        fixed.confirms_batches(*batches(constant, records, generator), kinds, owners(round)) for round in range(20)
    )


@pytest.mark.parametrize("kind", ["poisson", "without-replacement"])
def test_batches_that_return_in_another_step_or_round_are_not_confirmed(kind: str) -> None:
    generator, kinds = np.random.default_rng(1), [Sampling(kind, 60, 10, 60, 10)] * 4
    sizes = generator.binomial(60, 1 / 6, (4, 10)) if kind == "poisson" else np.full((4, 10), 10)
    indices, counts = batches(sizes, 60, generator)
    memory = NoiseMemory()
    assert memory.confirms_batches(indices, counts, kinds, owners(0))
    assert memory.confirms_batches(indices, counts, kinds, owners(0)), "the same round, computed again"
    assert not memory.confirms_batches(indices, counts, kinds, owners(1))
    same = indices[:, :1].expand(-1, 10, -1), counts[:, :1].expand(-1, 10)
    assert not NoiseMemory().confirms_batches(*same, kinds, owners(0))


def test_batches_of_all_records_or_of_a_shuffle_may_return() -> None:
    indices, counts = torch.arange(7).expand(2, 10, -1), torch.full((2, 10), 7)
    for sampling in (
        Sampling("all", 7, 7, 7, 10),
        Sampling("partition", 7, 7, 7, 10),
        Sampling("poisson", 7, 7, 7, 10),
    ):
        memory = NoiseMemory()
        for round in range(20):
            assert memory.confirms_batches(indices, counts, [sampling] * 2, owners(round, 2))


def test_so_few_records_that_batches_return_by_chance_are_confirmed() -> None:
    generator, kinds = np.random.default_rng(1), [Sampling("poisson", 2, 1, 2, 1)] * 4
    memory = NoiseMemory()
    for round in range(200):
        sizes = generator.binomial(2, 0.5, (4, 1))
        assert memory.confirms_batches(*batches(sizes, 2, generator), kinds, owners(round))


def test_a_client_that_holds_one_record_many_times_is_confirmed() -> None:
    """Batches of the same record all the time are different draws of the client's places."""
    examples = Examples(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64))
    sites = Sites.of(examples, RowLists.of([torch.zeros(20, dtype=torch.int64)] * 2))
    method = replace(FED_CDP, batch=WithoutReplacement(16), local=LocalTraining(steps=38))
    draws = sites.draw(method, 0, [0, 1], Streams.from_seed(1))
    assert not draws.indices.any()
    kinds = [method.batch.sampling(20, 38)] * 2
    assert NoiseMemory().confirms_batches(draws.positions, draws.counts, kinds, owners(0, 2))


def test_the_newest_noises_are_remembered_and_the_oldest_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedveil.engine.noise_memory.REMEMBERED", 10)
    memory = NoiseMemory()
    for mark in range(1000):
        assert not memory.returns(mark, mark)
        assert len(memory.fingerprints) <= 10
    assert all(memory.returns(mark, "another") for mark in range(995, 1000))
    assert not memory.returns(0, "another")


@pytest.mark.parametrize(("records", "size", "steps"), [(60, 10, 1), (60, 10, 2), (60, 10, 30), (30, 1, 2)])
def test_sizes_of_few_sound_batches_are_not_taken_for_wrong_ones(records: int, size: int, steps: int) -> None:
    """A Gaussian's limit on the squares of so few took one of a thousand first rounds for wrong."""
    generator, kind = torch.Generator().manual_seed(1), Sampling("poisson", records, size, records, steps)
    for _ in range(20_000):
        memory = NoiseMemory()
        counts = (torch.rand(steps, records, generator=generator) < size / records).sum(dim=1)
        memory._count_sizes(counts.double(), records, size / records)
        positions = torch.zeros(0, steps, records, dtype=torch.int64)
        assert memory.confirms_batches(positions, counts[:0], [kind][:0], [])
