"""A witness sees missing, wrong, misplaced and returning noise, and says no more than yes or no."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fedveil.core.parameters import Layout
from fedveil.core.streams import Address, Purpose, Streams
from fedveil.engine.noise_memory import NoiseMemory
from fedveil.engine.witness import Witness, looked_at, rows_confirmed, within_bound
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


def moved_between_steps(noisy: Tensor, plain: Tensor, step: int) -> Tensor:
    return plain + on_grid((noisy - plain) * (0.1 if step % 2 else 1.99**0.5), plain)


def uniform(noisy: Tensor, plain: Tensor, step: int) -> Tensor:
    numbers = torch.rand(plain.shape, generator=torch.Generator().manual_seed(step)) - 0.5
    return plain + on_grid(12**0.5 * STD * numbers, plain)


def copied_between_halves(noisy: Tensor, plain: Tensor, step: int) -> Tensor:
    half = noisy.shape[1] // 2
    return plain + on_grid(torch.cat([(noisy - plain)[:, :half]] * 2, dim=1), plain)


def begins_anew_with_every_layer(noisy: Tensor, plain: Tensor, step: int) -> Tensor:
    noise = noisy - plain
    return plain + on_grid(torch.cat([noise[:, :5_000], noise[:, :3_000], noise[:, :2_000]], dim=1), plain)


def on_grid(noise: Tensor, plain: Tensor) -> Tensor:
    """What must be added to `plain`, so that the noise, about as it is, takes it to the grid."""
    grid = STD / 2**24
    return ((plain + noise).double() / grid).round() * grid - plain


def off_the_grid(noisy: Tensor, plain: Tensor, step: int) -> Tensor:
    return plain + STD * torch.randn(plain.shape, generator=torch.Generator().manual_seed(step))


CHANGES = [
    half, first_half, first_half_scaled, not_one_layer, not_the_last_step, moved_between_steps, uniform,
    copied_between_halves, begins_anew_with_every_layer, off_the_grid,
]  # fmt: skip


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


def test_noise_that_returns_with_the_other_sign_is_not_confirmed() -> None:
    memory = NoiseMemory()
    assert watched(memory=memory) == [True] * 3

    def opposite(noisy: Tensor, plain: Tensor, step: int) -> Tensor:
        return plain - on_grid(noisy - plain, -plain)

    assert (
        watched(opposite, memory=memory, round=1, address=lambda round, client, step: (0, client, step)) == [False] * 3
    )


def test_the_noisy_sums_are_kept_where_they_are_looked_at() -> None:
    witness = Witness(LAYOUT, STD, round=0, steps=2, memory=NoiseMemory())
    for step in range(2):
        sums = torch.zeros(1, LAYOUT.size)
        seen = witness.before(sums)
        witness.after(seen, noise_at(0, 7, step, STD, sums[0]).unsqueeze(0))
    assert len(witness.kept) == 2
    assert torch.equal(witness.kept[1][0], noise_at(0, 7, 1, STD, torch.zeros(LAYOUT.size))[looked_at(LAYOUT)])


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
            some = witness.before(torch.zeros(1, large.size)).some
            assert some is not None
            looked[some] = True
            witness.steps += 1
    assert looked.float().mean() > 0.95


def test_rows_longer_than_the_sensitivity_are_seen() -> None:
    norms = torch.tensor([[3.0, 4.0], [0.1, 0.1]])
    assert within_bound(norms, torch.full((2, 2), 0.2), 1.0)
    assert not within_bound(norms, torch.full((2, 2), 0.21), 1.0)
    assert not within_bound(norms, torch.tensor([[1 / 3, 1 / 4], [1.0, 1.0]]), 1.0)
    assert within_bound(norms, torch.tensor([[1 / 3, 1 / 4], [1.0, 1.0]]), math.sqrt(2))
    assert within_bound(torch.full((1, 2), math.inf), torch.zeros(1, 2), 1.0)
    assert not within_bound(torch.full((1, 2), math.nan), torch.ones(1, 2), 1.0)


def test_every_row_must_carry_noise_of_its_own() -> None:
    before, places = torch.zeros(2, 3, 400), torch.arange(0, 400, 10)
    rows = torch.randn(before.shape, generator=torch.Generator().manual_seed(1))

    def confirmed(rows: Tensor, sums: Tensor | None = None) -> bool:
        return rows_confirmed(before, rows, rows.sum(dim=1) if sums is None else sums, 1.0, places)

    assert confirmed(rows)
    assert not confirmed(torch.where(torch.arange(3)[:, None] == 2, torch.zeros(()), rows)), "one has none"
    assert not confirmed(rows[:, :1].expand(-1, 3, -1)), "all have the same"
    assert not confirmed(torch.cat([rows[:, :2], -rows[:, :1]], dim=1)), "the same with the other sign"
    assert not confirmed(rows, rows.sum(dim=1) + rows[:, 0].roll(1, dims=1)), "the sum has another"
