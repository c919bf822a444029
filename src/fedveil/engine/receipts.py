"""Whether what ran is what was declared. It is checked after every round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from fedveil.core.errors import FedveilError
from fedveil.core.parameters import Layout
from fedveil.core.types import Declaration, Population, Receipt
from fedveil.method import Method


class ReceiptMismatch(FedveilError):
    """The run did something else than its method declares; nothing of that round may be published."""


def check_receipts(
    method: Method,
    population: Population,
    round: int,
    cohort: Sequence[int],
    receipts: Sequence[Receipt],
    layout: Layout,
    bound: float | None = None,
) -> None:
    """Every client of the cohort has exactly the receipts that the method declares, with noise of the declared size.

    `bound` is the value in this round of a bound that follows the norms.
    """
    expected = {
        (client, declared.place): declared
        for client in cohort
        for declared in method.declare(round, population.records[client], layout.group_count, population.clients, bound)
    }
    counted = Counter((receipt.client, receipt.did.place) for receipt in receipts)
    if counted != Counter(expected.keys()):
        surplus, missing = counted - Counter(expected.keys()), Counter(expected.keys()) - counted
        raise ReceiptMismatch(
            f"round {round}: receipts differ from the declaration: missing {dict(missing)}, surplus {dict(surplus)}"
        )
    for receipt in receipts:
        _check_receipt(expected[receipt.client, receipt.did.place], receipt, round, layout.size)


def _check_receipt(declared: Declaration, receipt: Receipt, round: int, coordinates: int) -> None:
    where = f"round {round}, client {receipt.client}, {declared.place}"
    if receipt.round != round or receipt.did != declared:
        wanted, did = asdict(declared), asdict(receipt.did)
        differing = ", ".join(
            f"{key}: declared {wanted[key]}, executed {did[key]}" for key in wanted if wanted[key] != did[key]
        )
        raise ReceiptMismatch(f"{where}: executed something else than declared ({differing or 'another round'})")
    if declared.sum_std > 0 and receipt.draws < declared.steps * coordinates:
        raise ReceiptMismatch(f"{where}: {receipt.draws} noise coordinates, declared {declared.steps * coordinates}")
    if not receipt.confirmed:
        raise ReceiptMismatch(f"{where}: what was measured on the tensors is not as declared")
