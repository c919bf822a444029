"""The ledger: what every round spends, on disk before the round is sent to its clients.

Rows are only ever added. A round that is repeated after a crash is a new attempt; the earlier attempt stays, because
nobody can prove that nothing of it was seen. The ledger may therefore claim more than was published, never less.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedveil.core.errors import FedveilError
from fedveil.core.types import Declaration, Receipt, Sampling, Unit
from fedveil.data.dataset import Dataset
from fedveil.runs.files import RunFiles, text_digest

_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS rounds (
    id INTEGER PRIMARY KEY, round INTEGER NOT NULL, attempt INTEGER NOT NULL, cohort TEXT NOT NULL,
    committed TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE (round, attempt));
CREATE TABLE IF NOT EXISTS declarations (id INTEGER PRIMARY KEY, declaration TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS receipts (
    round_id INTEGER NOT NULL REFERENCES rounds, client INTEGER NOT NULL,
    declaration_id INTEGER NOT NULL REFERENCES declarations, confirmed INTEGER NOT NULL, draws INTEGER NOT NULL);
"""


class LedgerBusy(FedveilError):
    """Another process holds the ledger: the run is going on."""


class LedgerChanged(FedveilError):
    """The spec or the terms are not those under which the run began."""


class Ledger:
    """One run's ledger; use it as a context manager. Only one process at a time can hold it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._errors():
            self._connection = sqlite3.connect(path, timeout=1.0, isolation_level=None)
        try:
            with self._errors():
                self._open()
        except BaseException:
            self._connection.close()
            raise

    def _open(self) -> None:
        database = self._connection
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("BEGIN EXCLUSIVE")
        stored = self._path.stat().st_size
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        (page,) = database.execute("PRAGMA page_size").fetchone()
        if stored and stored != pages * page:  # SQLite itself takes a file that lost its tail, and reads zeros
            raise FedveilError(f"{self._path}: the ledger is damaged (incomplete); the run can't go on")
        for statement in _SCHEMA.split(";"):
            database.execute(statement)
        database.execute("COMMIT")
        (verdict,) = database.execute("PRAGMA quick_check").fetchone()
        if verdict != "ok":
            raise FedveilError(f"{self._path}: the ledger is damaged ({verdict}); the run can't go on")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def pin(self, text: str, what: str = "spec") -> None:
        """Hold the run to what it began with: the text of spec.toml, its terms or records; a hash is kept once."""
        with self._errors(), self._transaction() as database:
            database.execute("INSERT OR IGNORE INTO about VALUES (?, ?)", (what, text_digest(text)))
        self.check(text, what)

    def check(self, text: str, what: str = "spec") -> bool:
        """Whether the run was held to this text; an error where it was held to another. A reader leaves nothing."""
        with self._errors(), self._transaction() as database:
            row = database.execute("SELECT value FROM about WHERE key = ?", (what,)).fetchone()
        if row is not None and row[0] != text_digest(text):
            words = {
                "spec": "the spec was changed after the run began; put spec.toml back as it was",
                "terms": "who holds how many records was changed after the run began; put run.json and the data back",
                "records": "the records are not those that the run began with; give it the same data set",
            }[what]
            raise LedgerChanged(f"{self._path}: {words}")
        return row is not None

    def commit(self, round: int, cohort: Sequence[int], receipts: Sequence[Receipt]) -> None:
        """Write what a round costs and sync it to the disk. Only after this may the round be sent to its clients.

        From then on somebody may see something of it, whatever happens to this process.
        """
        if any(receipt.round != round for receipt in receipts):
            raise FedveilError(f"{self._path}: receipts of another round were given for round {round}")
        with self._errors(), self._transaction() as database:
            (attempts,) = database.execute("SELECT count(*) FROM rounds WHERE round = ?", (round,)).fetchone()
            row = database.execute(
                "INSERT INTO rounds (round, attempt, cohort) VALUES (?, ?, ?)",
                (round, attempts, json.dumps(list(cohort))),
            )
            known: dict[Declaration, int] = {}
            for receipt in receipts:
                if receipt.did not in known:
                    known[receipt.did] = _declaration_id(database, receipt.did)
            database.executemany(
                "INSERT INTO receipts VALUES (?, ?, ?, ?, ?)",
                [(row.lastrowid, r.client, known[r.did], r.confirmed, r.draws) for r in receipts],
            )

    def confirm(self, round: int, receipts: Sequence[Receipt]) -> None:
        """Mark the last attempt of `round` as executed as declared."""
        with self._errors(), self._transaction() as database:
            rows = database.execute(
                "SELECT receipts.rowid, client, json_extract(declaration, '$.place') FROM receipts"
                " JOIN declarations ON declarations.id = declaration_id"
                " WHERE round_id = (SELECT max(id) FROM rounds WHERE round = ?)",
                (round,),
            ).fetchall()
            place = {(client, where): row for row, client, where in rows}
            database.executemany(
                "UPDATE receipts SET confirmed = ?, draws = ? WHERE rowid = ?",
                [(r.confirmed, r.draws, place[r.client, r.did.place]) for r in receipts],
            )

    def rounds(self) -> list[tuple[int, int, list[int]]]:
        """(round, attempt, cohort) of all that was committed, in order."""
        with self._errors():
            rows = self._connection.execute("SELECT round, attempt, cohort FROM rounds ORDER BY id").fetchall()
            return [(round, attempt, [int(client) for client in json.loads(cohort)]) for round, attempt, cohort in rows]

    def receipts(self, *, published: bool = False) -> list[Receipt]:
        """Everything that was spent, including attempts that were never published; or each round's last attempt."""
        last = " WHERE attempt = (SELECT max(attempt) FROM rounds AS other WHERE other.round = rounds.round)"
        with self._errors():
            rows = self._connection.execute(
                "SELECT round, client, declaration, confirmed, draws FROM receipts"
                " JOIN rounds ON rounds.id = round_id JOIN declarations ON declarations.id = declaration_id"
                + (last if published else "")
                + " ORDER BY receipts.rowid"
            ).fetchall()
            known = {text: _declaration(json.loads(text)) for text in {row[2] for row in rows}}
            return [
                Receipt(round, client, known[declaration], bool(confirmed), draws)
                for round, client, declaration, confirmed, draws in rows
            ]

    def check_covers(self, rounds: int) -> None:
        """Refuse a ledger that lacks a round whose model was published: it would claim less than was spent."""
        missing = set(range(rounds)) - {round for round, _, _ in self.rounds()}
        if missing:
            raise FedveilError(
                f"{self._path}: the ledger lacks {len(missing)} of the {rounds} published rounds; the run can't go on"
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise LedgerBusy(f"{self._path}: another process is working on this run") from None
            raise FedveilError(f"{self._path}: the ledger can't be used ({error}); the run can't go on") from None
        except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
            raise FedveilError(f"{self._path}: the ledger can't be read ({error}); the run can't go on") from None


def check_records(files: RunFiles, dataset: Dataset) -> None:
    """Refuse records other than those that a run began with."""
    if files.ledger.is_file():
        with Ledger(files.ledger) as ledger:
            ledger.check(dataset.fingerprint, "records")


def _declaration_id(database: sqlite3.Connection, declaration: Declaration) -> int:
    text = json.dumps(asdict(declaration), sort_keys=True)
    database.execute("INSERT OR IGNORE INTO declarations (declaration) VALUES (?)", (text,))
    (row,) = database.execute("SELECT id FROM declarations WHERE declaration = ?", (text,)).fetchone()
    return int(row)


def _declaration(table: dict[str, Any]) -> Declaration:
    return Declaration(**{**table, "unit": Unit(table["unit"]), "sampling": Sampling(**table["sampling"])})
