"""The ledger: what every round is charged, on disk before the round is sent to its clients, and what was executed.

Rows are only ever added. A round that is repeated after a crash is a new attempt; the earlier attempt stays, because
nobody can prove that nothing of it was seen. The ledger may therefore claim more than was published, never less.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedveil.core.atomic import PRIVATE_FILE
from fedveil.core.digests import text_digest
from fedveil.core.errors import FedveilError
from fedveil.core.types import Charge, Declaration, Receipt, Sampling, Unit

_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS rounds (
    id INTEGER PRIMARY KEY, round INTEGER NOT NULL, attempt INTEGER NOT NULL, cohort TEXT NOT NULL,
    committed TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE (round, attempt));
CREATE TABLE IF NOT EXISTS declarations (id INTEGER PRIMARY KEY, declaration TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS charges (
    round_id INTEGER NOT NULL REFERENCES rounds, client INTEGER NOT NULL,
    declaration_id INTEGER NOT NULL REFERENCES declarations);
CREATE TABLE IF NOT EXISTS executed (round_id INTEGER PRIMARY KEY REFERENCES rounds);
CREATE TABLE IF NOT EXISTS receipts (
    round_id INTEGER NOT NULL REFERENCES rounds, client INTEGER NOT NULL,
    declaration_id INTEGER NOT NULL REFERENCES declarations, confirmed INTEGER NOT NULL, draws INTEGER NOT NULL);
"""

_LAST_ATTEMPT = "attempt = (SELECT max(attempt) FROM rounds AS other WHERE other.round = rounds.round)"


class LedgerUnusable(FedveilError):
    """The ledger can't be trusted, so the run can't go on. `problem` says why, without the path."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}; the run can't go on")
        self.problem = problem


class LedgerBusy(FedveilError):
    """Another process holds the ledger: the run is going on."""


class Pin(StrEnum):
    """What must stay as it was when the run began. The value is the key under which its digest is kept."""

    SPEC = "spec"
    CONTEXT = "terms"
    RECORDS = "records"


_CHANGED = {
    Pin.SPEC: "the spec was changed after the run began; put spec.toml back as it was",
    Pin.CONTEXT: "who holds how many records was changed after the run began; put run.json and the data back",
    Pin.RECORDS: "the records are not those that the run began with; give it the same data set",
}


class LedgerChanged(FedveilError):
    """Something has changed since the run began. `problem` says what, without the path."""

    def __init__(self, path: Path, pin: Pin) -> None:
        super().__init__(f"{path}: {_CHANGED[pin]}")
        self.problem = _CHANGED[pin]


@dataclass(frozen=True)
class LedgerRound:
    """An attempt at a round. `executed` says that what was executed is on record beside what was charged."""

    round: int
    attempt: int
    cohort: tuple[int, ...]
    executed: bool


class Ledger:
    """One run's ledger; use it as a context manager. Only one process at a time can hold it.

    A ledger of format 1 (fedveil 0.1) kept one row for both a charge and its receipt. Such a ledger is read, and
    nothing is added to it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._first_format = False
        with self._errors():
            _make_private(path)
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
            raise LedgerUnusable(self._path, "the ledger is damaged (incomplete)")
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        self._first_format = "receipts" in tables and "charges" not in tables
        if not self._first_format:
            for statement in _SCHEMA.split(";"):
                database.execute(statement)
        database.execute("COMMIT")
        (verdict,) = database.execute("PRAGMA quick_check").fetchone()
        if verdict != "ok":
            raise LedgerUnusable(self._path, f"the ledger is damaged ({verdict})")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def pin(self, pin: Pin, text: str) -> None:
        """Keep a digest of the text, once, so that a later change is noticed."""
        self._check_appendable()
        with self._errors(), self._transaction() as database:
            database.execute("INSERT OR IGNORE INTO about VALUES (?, ?)", (pin, text_digest(text)))
        self.check(pin, text)

    def check(self, pin: Pin, text: str) -> bool:
        """Whether a digest of this text was pinned; an error where that of another one was. Nothing is written."""
        with self._errors(), self._transaction() as database:
            row = database.execute("SELECT value FROM about WHERE key = ?", (pin,)).fetchone()
        if row is not None and row[0] != text_digest(text):
            raise LedgerChanged(self._path, pin)
        return row is not None

    def charge(self, round: int, cohort: Sequence[int], charges: Sequence[Charge]) -> None:
        """Write what a round costs and sync it to the disk. Only after this may the round be sent to its clients.

        From then on somebody may see part of it, whatever happens to this process.
        """
        self._check_appendable()
        if any(charge.round != round for charge in charges):
            raise FedveilError(f"{self._path}: charges of another round were given for round {round}")
        with self._errors(), self._transaction() as database:
            (attempts,) = database.execute("SELECT count(*) FROM rounds WHERE round = ?", (round,)).fetchone()
            row = database.execute(
                "INSERT INTO rounds (round, attempt, cohort) VALUES (?, ?, ?)",
                (round, attempts, json.dumps(list(cohort))),
            )
            known = _declaration_ids(database, [charge.declared for charge in charges])
            database.executemany(
                "INSERT INTO charges VALUES (?, ?, ?)",
                [(row.lastrowid, charge.client, known[charge.declared]) for charge in charges],
            )

    def execute(self, round: int, receipts: Sequence[Receipt]) -> None:
        """Write what the last attempt at a round did, as it was executed."""
        self._check_appendable()
        with self._errors(), self._transaction() as database:
            (row,) = database.execute("SELECT max(id) FROM rounds WHERE round = ?", (round,)).fetchone()
            charged = database.execute(
                "SELECT client, json_extract(declaration, '$.place') FROM charges"
                " JOIN declarations ON declarations.id = declaration_id WHERE round_id = ?",
                (row,),
            ).fetchall()
            if sorted(charged) != sorted((receipt.client, receipt.did.place) for receipt in receipts):
                raise FedveilError(f"{self._path}: round {round} did something else than it was charged for")
            known = _declaration_ids(database, [receipt.did for receipt in receipts])
            database.executemany(
                "INSERT INTO receipts VALUES (?, ?, ?, ?, ?)",
                [(row, r.client, known[r.did], r.confirmed, r.draws) for r in receipts],
            )
            database.execute("INSERT INTO executed VALUES (?)", (row,))

    def rounds(self) -> list[LedgerRound]:
        """All attempts at rounds, in order."""
        executed = (
            "NOT EXISTS (SELECT * FROM receipts WHERE round_id = rounds.id AND NOT confirmed)"
            if self._first_format
            else "EXISTS (SELECT * FROM executed WHERE round_id = rounds.id)"
        )
        with self._errors():
            rows = self._connection.execute(
                f"SELECT round, attempt, cohort, {executed} FROM rounds ORDER BY id"
            ).fetchall()
            return [
                LedgerRound(round, attempt, tuple(int(client) for client in json.loads(cohort)), bool(done))
                for round, attempt, cohort, done in rows
            ]

    def charges(self) -> list[Charge]:
        """Everything that was paid for, also for attempts that were never published."""
        table = "receipts" if self._first_format else "charges"
        rows = self._rows(f"SELECT round, declaration, client FROM {table}", table)
        return [Charge(round, client, declared) for round, declared, client in rows]

    def receipts(self) -> list[Receipt]:
        """What each round's last attempt did, for rounds that were executed."""
        rows = self._rows(
            "SELECT round, declaration, client, confirmed, draws FROM receipts",
            "receipts",
            f"WHERE {_LAST_ATTEMPT}" + (" AND confirmed" if self._first_format else ""),
        )
        return [Receipt(round, client, did, bool(confirmed), draws) for round, did, client, confirmed, draws in rows]

    def check_covers(self, rounds: int) -> None:
        """Refuse a ledger that lacks a round whose model was published: it would claim less than was spent."""
        missing = set(range(rounds)) - {entry.round for entry in self.rounds()}
        if missing:
            raise LedgerUnusable(self._path, f"the ledger lacks {len(missing)} of the {rounds} published rounds")

    def _rows(self, select: str, table: str, where: str = "") -> list[tuple[Any, ...]]:
        """Rows of charges or receipts in the order in which they were written; equal declarations are one object."""
        with self._errors():
            rows = self._connection.execute(
                f"{select} JOIN rounds ON rounds.id = round_id JOIN declarations ON declarations.id = declaration_id"
                f" {where} ORDER BY {table}.rowid"
            ).fetchall()
            known = {text: _declaration(json.loads(text)) for text in {row[1] for row in rows}}
            return [(round, known[text], *rest) for round, text, *rest in rows]

    def _check_appendable(self) -> None:
        if self._first_format:
            raise FedveilError(
                f"{self._path}: a ledger of format 1; this version reads it, only fedveil 0.1 goes on with it"
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
            if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise LedgerBusy(f"{self._path}: another process is working on this run") from None
            raise LedgerUnusable(self._path, f"the ledger can't be used ({error})") from None
        except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
            raise LedgerUnusable(self._path, f"the ledger can't be read ({error})") from None


def _make_private(path: Path) -> None:
    """A ledger tells who took part: only its owner may read it. SQLite's journal has the same permissions."""
    with suppress(OSError):  # what can't be made here, SQLite refuses in its own words
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, PRIVATE_FILE))


def _declaration_ids(database: sqlite3.Connection, declarations: Sequence[Declaration]) -> dict[Declaration, int]:
    known: dict[Declaration, int] = {}
    for declaration in declarations:
        if declaration not in known:
            text = json.dumps(asdict(declaration), sort_keys=True)
            database.execute("INSERT OR IGNORE INTO declarations (declaration) VALUES (?)", (text,))
            (row,) = database.execute("SELECT id FROM declarations WHERE declaration = ?", (text,)).fetchone()
            known[declaration] = int(row)
    return known


def _declaration(table: dict[str, Any]) -> Declaration:
    return Declaration(**{**table, "unit": Unit(table["unit"]), "sampling": Sampling(**table["sampling"])})
