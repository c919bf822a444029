"""A receipt that differs from the declaration in anything is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedveil.core.parameters import Layout
from fedveil.core.types import Population, Receipt
from fedveil.engine.receipts import ReceiptMismatch, check_receipts
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


def test_too_few_noise_coordinates_are_refused() -> None:
    first, second = receipts()
    with pytest.raises(ReceiptMismatch, match="noise coordinates"):
        check([first, replace(second, draws=second.draws - 1)])


def test_a_receipt_of_another_round_is_refused() -> None:
    first, second = receipts()
    with pytest.raises(ReceiptMismatch, match="another round"):
        check([first, replace(second, round=6)])
