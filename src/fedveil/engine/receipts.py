"""Is what ran what was declared? The run asks this after every round."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from fedveil.core.errors import FedveilError
from fedveil.core.types import Declaration, Population, Receipt
from fedveil.method import Method

MEASURED_DEVIATIONS = 7.0
"""How many standard errors a measured noise level may lie off the declared one."""


class ReceiptMismatch(FedveilError):
    """The run did something else than its method declares; nothing of that round may be published."""


def check_receipts(
    method: Method,
    population: Population,
    round: int,
    cohort: Sequence[int],
    receipts: Sequence[Receipt],
    *,
    layers: int,
    coordinates: int,
) -> None:
    """Every client of the cohort has exactly the receipts that the method declares, with noise of the declared size."""
    expected = {
        (client, declared.place): declared
        for client in cohort
        for declared in method.declare(round, population.records[client], layers)
    }
    counted = Counter((receipt.client, receipt.did.place) for receipt in receipts)
    if counted != Counter(expected.keys()):
        surplus, missing = counted - Counter(expected.keys()), Counter(expected.keys()) - counted
        raise ReceiptMismatch(
            f"round {round}: receipts differ from the declaration: missing {dict(missing)}, surplus {dict(surplus)}"
        )
    for receipt in receipts:
        _check_receipt(expected[receipt.client, receipt.did.place], receipt, round, coordinates)
    if receipts:  # all clients together show a smaller deviation than each alone
        pooled = sum(map(_relative_square, receipts)) / len(receipts)
        _check_level(f"round {round}", pooled, coordinates * len(receipts))


def _check_receipt(declared: Declaration, receipt: Receipt, round: int, coordinates: int) -> None:
    where = f"round {round}, client {receipt.client}, {declared.place}"
    if receipt.round != round or receipt.did != declared:
        told, did = asdict(declared), asdict(receipt.did)
        differing = ", ".join(
            f"{key}: declared {told[key]}, executed {did[key]}" for key in told if told[key] != did[key]
        )
        raise ReceiptMismatch(f"{where}: executed something else than declared ({differing or 'another round'})")
    if declared.sum_std > 0 and receipt.draws < declared.steps * coordinates:
        raise ReceiptMismatch(f"{where}: {receipt.draws} noise coordinates, declared {declared.steps * coordinates}")
    if declared.sum_std == 0 and receipt.measured_std != 0:
        raise ReceiptMismatch(f"{where}: noise was added where none is declared")
    _check_level(where, _relative_square(receipt), coordinates)


def _relative_square(receipt: Receipt) -> float:
    """(measured/declared)² of the noise; 1 where it is as declared."""
    declared = receipt.did.sum_std
    return (receipt.measured_std / declared) ** 2 if declared > 0 else 1.0


def _check_level(where: str, relative_square: float, count: int) -> None:
    """The mean square of `count` Gaussians has relative standard error sqrt(2/count); 1e-3 is room for float32 sums."""
    tolerance = MEASURED_DEVIATIONS * math.sqrt(2 / count) + 1e-3
    if not abs(relative_square - 1) <= tolerance:
        raise ReceiptMismatch(
            f"{where}: the noise measured on the tensors is {math.sqrt(relative_square):.4g} times the declared one"
        )
