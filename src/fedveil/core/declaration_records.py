"""Declarations and receipts as tables for JSON, and back; and whether two declarations say the same."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from fedveil.core.types import Declaration, Receipt, Sampling, Unit

ROUNDING = 1e-12
"""How far numbers of a declaration may lie apart: powers are computed a little differently on other machines."""


def read_declaration(table: dict[str, Any]) -> Declaration:
    return Declaration(**{**table, "unit": Unit(table["unit"]), "sampling": Sampling(**table["sampling"])})


def receipt_record(receipt: Receipt) -> dict[str, Any]:
    return asdict(receipt)


def read_receipt(table: dict[str, Any]) -> Receipt:
    """KeyError, TypeError or ValueError where it is none."""
    receipt = Receipt(**{**table, "did": read_declaration(table["did"])})
    numbers = (receipt.round, receipt.client, receipt.draws)
    if any(type(number) is not int for number in numbers) or type(receipt.confirmed) is not bool:
        raise ValueError("not a receipt")
    return receipt


def same_declaration(mine: Declaration, its: Declaration) -> bool:
    """Equal, but for the last digits of numbers that were computed on another machine."""
    if mine == its:
        return True
    one, other = asdict(mine), asdict(its)
    return all(
        math.isclose(one[key], other[key], rel_tol=ROUNDING)
        if isinstance(one[key], float) and isinstance(other[key], float)
        else one[key] == other[key]
        for key in one
    )
