"""Write a run down as older versions did, for tests of reading such runs.

They had no `each_row`, and yet declared noise on rows wherever `noise` was "row".
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, replace
from pathlib import Path

from safetensors.torch import save_file

from fedveil.config.spec import resolve
from fedveil.core.digested_tensors import read_digested
from fedveil.core.digests import text_digest
from fedveil.core.types import Charge
from fedveil.data.dataset import Dataset
from fedveil.ledger.anchor import anchor_path
from fedveil.ledger.entries import LedgerRound
from fedveil.ledger.ledger_errors import Pin
from fedveil.ledger.store import Ledger
from fedveil.method import Method
from fedveil.runs.files import RunFiles
from fedveil.runs.manifest import pinned_context

ROW_EPSILON = 1.25
"""What the result of such a run says of rows."""

MAKERS = {1: "0.1.0", 2: "0.2.0"}

TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE rounds (
    id INTEGER PRIMARY KEY, round INTEGER NOT NULL, attempt INTEGER NOT NULL, cohort TEXT NOT NULL,
    committed TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE (round, attempt));
CREATE TABLE declarations (id INTEGER PRIMARY KEY, declaration TEXT NOT NULL UNIQUE);
CREATE TABLE receipts (
    round_id INTEGER NOT NULL, client INTEGER NOT NULL, declaration_id INTEGER NOT NULL,
    confirmed INTEGER NOT NULL, draws INTEGER NOT NULL);
"""
SINCE_FORMAT_2 = """
CREATE TABLE charges (round_id INTEGER NOT NULL, client INTEGER NOT NULL, declaration_id INTEGER NOT NULL);
CREATE TABLE executed (round_id INTEGER PRIMARY KEY);
"""


def as_format(directory: Path, form: int, dataset: Dataset) -> None:
    """Turn the directory of a run into one of format 1 (one row for a charge and its receipt) or 2 (one for each)."""
    files = RunFiles(directory)
    with Ledger(files.ledger) as ledger:
        rounds = ledger.rounds()
    method = resolve(files.spec).method
    lines = files.read_spec().splitlines(keepends=True)
    files.spec.write_text("".join(line for line in lines if not line.startswith("each_row = ")))
    manifest = json.loads(files.manifest.read_text()) | {"format": form, "fedveil": MAKERS[form]}
    del manifest["terms"]["caveats"]
    files.manifest.write_text(json.dumps(manifest))
    if files.result.exists():
        result = json.loads(files.result.read_text())
        for key in ("digest", "ledger_head"):
            del result[key]
        for cell in result["guarantees"]:
            if form == 1:
                cell["caveats"] = [caveat["text"] for caveat in cell["caveats"]]
            if _with_noisy_rows(method) and (cell["unit"], cell["view"]) == ("record", "on_device"):
                cell |= {"epsilon": ROW_EPSILON, "accountant": "PLD", "composition": "Gaussians", "reason": ""}
        files.result.write_text(json.dumps(result))
    for checkpoint in files.checkpoints.iterdir():
        tensors, facts = read_digested(checkpoint)
        save_file(tensors, checkpoint, metadata=facts)
    for path in (files.records_key, files.ledger, anchor_path(files.ledger)):
        path.unlink()
    pins = {
        Pin.SPEC: files.read_spec(),
        Pin.CONTEXT: pinned_context(manifest["terms"]),
        Pin.RECORDS: dataset.fingerprint,
    }
    database = sqlite3.connect(files.ledger)
    with database:
        database.executescript(TABLES if form == 1 else TABLES + SINCE_FORMAT_2)
        database.executemany(
            "INSERT INTO about VALUES (?, ?)", [(pin, text_digest(text)) for pin, text in pins.items()]
        )
        for entry in rounds:
            _write_round(database, entry, form, method)
    database.close()


def _with_noisy_rows(method: Method) -> bool:
    """Whether older versions took the rows for noisy."""
    return method.example is not None and method.example.noise == "row" and method.batch.kind != "poisson"


def _write_round(database: sqlite3.Connection, entry: LedgerRound, form: int, method: Method) -> None:
    row = database.execute(
        "INSERT INTO rounds (round, attempt, cohort) VALUES (?, ?, ?)",
        (entry.round, entry.attempt, json.dumps(entry.cohort)),
    ).lastrowid
    kinds = [(charge.client, _declaration_row(database, charge, method)) for charge in entry.charges]
    draws = {(receipt.client, receipt.did.place): receipt.draws for receipt in entry.receipts or ()}
    places = [(charge.client, charge.declared.place) for charge in entry.charges]
    rows = [(row, *kind, entry.executed, draws.get(place, 0)) for kind, place in zip(kinds, places, strict=True)]
    if form == 1 or entry.executed:
        database.executemany("INSERT INTO receipts VALUES (?, ?, ?, ?, ?)", rows)
    if form == 2:
        database.executemany("INSERT INTO charges VALUES (?, ?, ?)", [(row, *kind) for kind in kinds])
    if form == 2 and entry.executed:
        database.execute("INSERT INTO executed VALUES (?)", (row,))


def _declaration_row(database: sqlite3.Connection, charge: Charge, method: Method) -> int:
    mechanism, declared = method.mechanisms[charge.declared.place], charge.declared
    sigma = mechanism.at(charge.round, method.rounds).sigma if mechanism.noise == "row" else 0.0
    text = json.dumps(asdict(replace(declared, row_std=sigma * declared.bound)), sort_keys=True)
    database.execute("INSERT OR IGNORE INTO declarations (declaration) VALUES (?)", (text,))
    return int(database.execute("SELECT id FROM declarations WHERE declaration = ?", (text,)).fetchone()[0])
