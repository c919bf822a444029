"""A receipt that differs from the declaration in anything is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fedveil.core.parameters import Layout
from fedveil.core.types import Population, Receipt
from fedveil.engine.receipts import ReceiptMismatch, as_declared, check_receipts
from fedveil.zoo import FED_AVG, FED_CDP

POPULATION = Population(records=(500, 400, 300))
COORDINATES, LAYERS, ROUND = 10_000, 3, 7
LAYOUT = Layout(("a", "b", "c"), ((5_000,), (3_000,), (2_000,)), (0, 1, 2))


def receipts() -> list[Receipt]:
    made = []
    for client in (0, 2):
        (declared,) = FED_CDP.declare(ROUND, POPULATION.records[client], LAYERS, 3)
        made.append(Receipt(ROUND, client, declared, True, declared.steps * COORDINATES))
    return made


def check(made: list[Receipt]) -> None:
    check_receipts(FED_CDP, POPULATION, ROUND, [0, 2], made, LAYOUT)


def test_receipts_as_declared_pass() -> None:
    check(receipts())
    check_receipts(FED_AVG, POPULATION, ROUND, [0, 2], [], LAYOUT)


def test_a_missing_doubled_or_foreign_receipt_is_refused() -> None:
    first, second = receipts()
    for made in ([first], [first, second, second], [first, replace(second, client=1)], []):
        with pytest.raises(ReceiptMismatch, match="receipts differ"):
            check(made)


@pytest.mark.parametrize("field", ["steps", "bound", "sensitivity", "sum_std", "row_std"])
def test_a_difference_in_any_declared_number_is_refused_and_named(field: str) -> None:
    first, second = receipts()
    wrong = replace(second.did, **{field: getattr(second.did, field) * 2 + 1})
    with pytest.raises(ReceiptMismatch, match=field):
        check([first, replace(second, did=wrong)])


def test_another_sampling_is_refused() -> None:
    first, second = receipts()
    wrong = replace(second.did, sampling=replace(second.did.sampling, kind="poisson"))
    with pytest.raises(ReceiptMismatch, match="sampling"):
        check([first, replace(second, did=wrong)])


def test_noise_that_was_not_confirmed_is_refused() -> None:
    first, second = receipts()
    with pytest.raises(ReceiptMismatch, match="measured"):
        check([first, replace(second, confirmed=False)])


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


def test_too_few_noise_coordinates_are_refused() -> None:
    first, second = receipts()
    with pytest.raises(ReceiptMismatch, match="noise coordinates"):
        check([first, replace(second, draws=second.draws - 1)])


def test_a_receipt_of_another_round_is_refused() -> None:
    first, second = receipts()
    with pytest.raises(ReceiptMismatch, match="another round"):
        check([first, replace(second, round=6)])
