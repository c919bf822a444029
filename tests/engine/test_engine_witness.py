"""A witness sees missing, wrong, misplaced and returning noise, and says no more than yes or no."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from fedveil.core.parameters import Layout
from fedveil.core.streams import Address, Purpose, Streams
from fedveil.engine.witness import NoiseMemory, Witness, as_declared, rows_confirmed, within_bound
from fedveil.mechanisms.noise import NoiseSource

LAYOUT = Layout(("a", "b", "c"), ((5_000,), (3_000,), (2_000,)), (0, 1, 2))
CLIENTS, STEPS, STD = [3, 8, 9], 10, 2.5
Change = Callable[[Tensor, Tensor, int], Tensor]


def noise_at(round: int, client: int, step: int, std: float, sums: Tensor) -> Tensor:
    noisy = sums.clone().unsqueeze(0)
    NoiseSource(Streams.from_seed(1)).add(Purpose.EXAMPLE_NOISE, [Address(round, client, step)], noisy, std)
    return noisy[0]


def watched(
    change: Change = lambda noisy, plain, step: noisy,
    *,
    layout: Layout = LAYOUT,
    memory: NoiseMemory | None = None,
    round: int = 0,
    steps: int = STEPS,
    address: Callable[[int, int, int], tuple[int, int, int]] = lambda round, client, step: (round, client, step),
) -> list[bool]:
    """A round of noise, each step's noisy sums changed by `change`."""
    witness = Witness(layout, STD, round=round, steps=steps, memory=memory or NoiseMemory())
    generator = torch.Generator().manual_seed(round)
    for step in range(steps):
        sums = torch.randn(len(CLIENTS), layout.size, generator=generator)
        seen = witness.before(sums)
        rows = [noise_at(*address(round, client, step), STD, row) for client, row in zip(CLIENTS, sums, strict=True)]
        witness.after(seen, change(torch.stack(rows), sums, step))
    return witness.confirmed(CLIENTS)


def test_noise_as_it_should_be_is_confirmed_round_after_round() -> None:
    memory = NoiseMemory()
    for round in range(5):
        assert watched(memory=memory, round=round) == [True] * 3


@pytest.mark.parametrize("size", [1, 2, 5, 11, 12, 63, 64, 65, 300])
def test_small_models_are_confirmed_too(size: int) -> None:
    layout = Layout(("a",), ((size,),), (0,))
    for round in range(20):
        assert watched(layout=layout, round=round) == [True] * 3


def half(noisy: Tensor, plain: Tensor, step: int) -> Tensor:
    return plain + (noisy - plain) / 2


def first_half(noisy: Tensor, plain: Tensor, step: int) -> Tensor:
    return torch.where(torch.arange(noisy.shape[1]) < noisy.shape[1] // 2, noisy, plain)


def first_half_scaled(noisy: Tensor, plain: Tensor, step: int) -> Tensor:
    return plain + (first_half(noisy, plain, step) - plain) * math.sqrt(2)


def not_one_layer(noisy: Tensor, plain: Tensor, step: int) -> Tensor:
    return torch.cat([noisy[:, :8_000], plain[:, 8_000:]], dim=1)


def not_the_last_step(noisy: Tensor, plain: Tensor, step: int) -> Tensor:
    return plain if step == STEPS - 1 else noisy


def off_the_grid(noisy: Tensor, plain: Tensor, step: int) -> Tensor:
    return plain + STD * torch.randn(plain.shape, generator=torch.Generator().manual_seed(step))


CHANGES = [half, first_half, first_half_scaled, not_one_layer, not_the_last_step, off_the_grid]


@pytest.mark.parametrize("change", CHANGES)
def test_wrong_or_misplaced_noise_is_not_confirmed(change: Change) -> None:
    assert watched(change) == [False] * 3


def test_only_the_client_whose_noise_is_wrong_is_not_confirmed() -> None:
    def one(noisy: Tensor, plain: Tensor, step: int) -> Tensor:
        return torch.stack([noisy[0], plain[1], noisy[2]])

    assert watched(one) == [True, False, True]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_not_finite_are_not_confirmed(bad: float) -> None:
    witness = Witness(LAYOUT, STD, round=0, steps=1, memory=NoiseMemory())
    sums = torch.zeros(1, LAYOUT.size)
    sums[0, 17] = bad
    seen = witness.before(sums)
    witness.after(seen, noise_at(0, 1, 0, STD, sums[0]).unsqueeze(0))
    assert witness.confirmed([1]) == [False]


def test_noise_that_returns_in_another_step_is_not_confirmed() -> None:
    assert not any(watched(address=lambda round, client, step: (round, client, 0)))


def test_noise_that_returns_at_another_client_is_not_confirmed() -> None:
    confirmed = watched(address=lambda round, client, step: (round, 0, step))
    assert not all(confirmed)


def test_noise_that_returns_in_another_round_is_not_confirmed() -> None:
    memory = NoiseMemory()
    assert watched(memory=memory, address=lambda round, client, step: (0, client, step)) == [True] * 3
    returned = watched(memory=memory, round=1, address=lambda round, client, step: (0, client, step))
    assert returned == [False] * 3


def test_the_same_client_twice_side_by_side_is_no_return() -> None:
    """The general path fills a tile with copies of its last client."""
    witness = Witness(LAYOUT, STD, round=0, steps=1, memory=NoiseMemory())
    sums = torch.zeros(2, LAYOUT.size)
    seen = witness.before(sums)
    witness.after(seen, noise_at(0, 7, 0, STD, sums[0]).expand(2, -1))
    assert witness.confirmed([7, 7]) == [True, True]


def test_without_declared_noise_none_may_be_there() -> None:
    for change, expected in ((torch.zeros_like, True), (torch.ones_like, False)):
        witness = Witness(LAYOUT, 0.0, round=0, steps=1, memory=NoiseMemory())
        sums = torch.zeros(1, LAYOUT.size)
        seen = witness.before(sums)
        witness.after(seen, change(sums))
        assert witness.confirmed([1]) == [expected]


def test_all_coordinates_have_their_turn() -> None:
    large = Layout(("a",), ((70_000,),), (0,))
    looked = torch.zeros(large.size, dtype=torch.bool)
    for round in range(40):
        witness = Witness(large, STD, round=round, steps=2, memory=NoiseMemory())
        for _ in range(2):
            looked[witness.before(torch.zeros(1, large.size)).some] = True
            witness.steps += 1
    assert looked.float().mean() > 0.95


# Reports, batches, norms.


def test_reports_without_noise_or_with_half_of_it_are_not_confirmed() -> None:
    generator = torch.Generator().manual_seed(1)
    good, half_noise = NoiseMemory(), NoiseMemory()
    assert not NoiseMemory().confirms_reports(torch.zeros(1), 5.0)
    for _ in range(200):
        assert good.confirms_reports(5.0 * torch.randn(1, generator=generator).double(), 5.0)
    assert not all(
        half_noise.confirms_reports(2.5 * torch.randn(1, generator=generator).double(), 5.0) for _ in range(200)
    )


@pytest.mark.parametrize(("records", "expected"), [(500, 5), (60, 30), (1000, 100)])
def test_poisson_batches_are_confirmed_and_batches_of_fixed_size_are_not(records: int, expected: int) -> None:
    generator = np.random.default_rng(1)
    poisson, fixed = NoiseMemory(), NoiseMemory()
    for _ in range(50):
        sizes = torch.from_numpy(generator.binomial(records, expected / records, (4, 10)))
        assert poisson.confirms_batches(sizes, [records] * 4, expected)
    assert not all(fixed.confirms_batches(torch.full((4, 10), expected), [records] * 4, expected) for _ in range(20))


def test_batches_of_all_records_have_nothing_to_vary() -> None:
    assert NoiseMemory().confirms_batches(torch.full((2, 100), 7), [7, 7], 7)


@pytest.mark.parametrize(("clients", "size"), [(20, 4), (100, 10), (1000, 1000), (5, 2), (2, 1)])
def test_cohorts_that_are_drawn_at_random_are_confirmed(clients: int, size: int) -> None:
    generator, memory = np.random.default_rng(1), NoiseMemory()
    for _ in range(300):
        cohort = sorted(generator.choice(clients, size, replace=False).tolist())
        assert memory.confirms_cohort(cohort, clients, size)


@pytest.mark.parametrize(("clients", "size"), [(20, 4), (100, 10), (5, 2)])
def test_the_same_cohort_always_is_seen(clients: int, size: int) -> None:
    memory = NoiseMemory()
    assert not all(memory.confirms_cohort(range(size), clients, size) for _ in range(12))


def test_rows_longer_than_their_bound_are_seen() -> None:
    norms = torch.tensor([[3.0, 4.0], [0.1, 0.1]])
    assert within_bound(norms, torch.full((2, 2), 0.2), 1.0, by_layer=False)
    assert not within_bound(norms, torch.full((2, 2), 0.21), 1.0, by_layer=False)
    assert within_bound(norms, torch.full((2, 2), 0.25), 1.0, by_layer=True)
    assert not within_bound(norms, torch.ones(2, 2), 1.0, by_layer=True)
    assert within_bound(torch.full((1, 2), math.inf), torch.zeros(1, 2), 1.0, by_layer=True)
    assert not within_bound(torch.full((1, 2), math.nan), torch.ones(1, 2), 1.0, by_layer=True)


def test_every_row_must_carry_noise_of_its_own() -> None:
    before = torch.zeros(2, 3, 400)
    rows = torch.randn(before.shape, generator=torch.Generator().manual_seed(1))
    assert rows_confirmed(before, rows, 1.0)
    rows[1, 2] = 0
    assert not rows_confirmed(before, rows, 1.0)


# The size of noise.


@pytest.mark.parametrize("level", [0.0, 0.5, 0.9, 1.1, 2.0, float("nan"), float("inf")])
def test_noise_of_another_level_is_not_as_declared(level: float) -> None:
    assert not as_declared((3.0 * level) ** 2, 3.0, 20_000)


def test_noise_of_the_declared_level_is_as_declared() -> None:
    assert as_declared(9.0, 3.0, 20_000)
    assert as_declared(9.0 * 1.03, 3.0, 20_000)
    assert as_declared(0.0, 0.0, 20_000)
    assert not as_declared(1e-9, 0.0, 20_000)


@pytest.mark.parametrize("count", [1, 5, 83, 97])
def test_no_noise_at_all_is_never_as_declared_however_small_the_model(count: int) -> None:
    assert not as_declared(0.0, 3.0, count)


@pytest.mark.parametrize("level", [0.0, 0.5, 1.6, 2.0])
def test_half_and_double_the_noise_of_a_hundred_coordinates_are_not_as_declared(level: float) -> None:
    assert not as_declared((3.0 * level) ** 2, 3.0, 100)


@pytest.mark.parametrize("count", [1, 4, 20, 100, 2_000])
def test_noise_as_it_should_be_is_as_declared_for_every_size_of_model(count: int) -> None:
    drawn = 3.0 * torch.randn(200_000 // count, count, generator=torch.Generator().manual_seed(count))
    assert all(as_declared(mean, 3.0, count) for mean in drawn.double().square().mean(dim=-1).tolist())
