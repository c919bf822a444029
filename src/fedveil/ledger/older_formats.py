"""Ledgers of formats 1 and 2: rows in tables, not chained. They are read, and nothing is added to them.

Format 1 (fedveil 0.1) kept one row for both a charge and its receipt, format 2 one for each. Both declared the noise of
rows (`row_std`) although runs drew that of their sum and left the rows in memory clean. So it is read as 0.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Set
from dataclasses import replace

from fedveil.core.declaration_records import read_declaration
from fedveil.core.types import Charge, Receipt
from fedveil.ledger.entries import LedgerContent, LedgerRound


def read_older(database: sqlite3.Connection, tables: Set[str]) -> LedgerContent:
    """What such a ledger holds; ValueError for rows that belong to no round or have no declaration."""
    first_format = "charges" not in tables
    known = {
        number: replace(read_declaration(json.loads(text)), row_std=0.0)
        for number, text in database.execute("SELECT id, declaration FROM declarations NOT INDEXED")
    }
    rounds = database.execute("SELECT id, round, attempt, cohort FROM rounds NOT INDEXED ORDER BY id").fetchall()
    numbers = {row[0]: row[1] for row in rounds}
    charges: dict[int, list[Charge]] = defaultdict(list)
    for row, client, kind in database.execute(
        f"SELECT round_id, client, declaration_id FROM {'receipts' if first_format else 'charges'} ORDER BY rowid"
    ):
        charges[row].append(Charge(numbers[row], client, known[kind]))
    receipts: dict[int, list[Receipt]] = defaultdict(list)
    for row, client, kind, confirmed, draws in database.execute(
        "SELECT round_id, client, declaration_id, confirmed, draws FROM receipts ORDER BY rowid"
    ):
        receipts[row].append(Receipt(numbers[row], client, known[kind], bool(confirmed), draws))
    if first_format:
        executed = {row for row in numbers if all(receipt.confirmed for receipt in receipts[row])}
    else:
        executed = {row for (row,) in database.execute("SELECT round_id FROM executed")}
    pins = {str(key): str(value) for key, value in database.execute("SELECT key, value FROM about NOT INDEXED")}
    return LedgerContent(
        pins,
        [
            LedgerRound(
                round,
                attempt,
                tuple(int(client) for client in json.loads(cohort)),
                tuple(charges[row]),
                tuple(receipts[row]) if row in executed else None,
            )
            for row, round, attempt, cohort in rounds
        ],
    )
