"""The ledger: what every round is charged, on disk before the round is sent to its clients, and what was executed.

Entries are only ever added, and each is chained to those before it (`chain.py`, `anchor.py`). A round that is repeated
after a crash is a new attempt; the earlier attempt stays, because nobody can prove that nothing of it was seen. The
ledger may therefore claim more than was published, never less.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from fedveil.core.atomic import PRIVATE_FILE
from fedveil.core.digests import text_digest
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.types import Charge, Receipt
from fedveil.ledger.anchor import (
    KEY_VARIABLE,
    NO_ANCHOR,
    Anchor,
    LedgerSummary,
    Seal,
    anchor_problem,
    read_anchor,
    write_anchor,
)
from fedveil.ledger.chain import GENESIS, SHORT_HEAD, first_difference, heads_of, next_head
from fedveil.ledger.entries import LedgerContent, LedgerRound, Numbers, begin_entry, charge_entry, execute_entry
from fedveil.ledger.ledger_errors import LedgerBusy, LedgerChanged, LedgerUnusable, Pin
from fedveil.ledger.older_formats import read_older

_SCHEMA = "CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, entry TEXT NOT NULL, head TEXT NOT NULL)"


class Ledger:
    """One run's ledger; use it as a context manager. Only one process at a time can hold it.

    It is checked when it is opened: that every entry follows from the one before, and that it is as long as the anchor
    beside it says. With a `key` it must be sealed with that. Reading writes nothing.
    """

    def __init__(self, path: Path, *, key: bytes | None = None) -> None:
        self._path, self._key = path, key
        self._heads: list[str] = []
        self._anchor: Anchor = NO_ANCHOR
        self._content: LedgerContent | None = None
        self._older = False
        with self._errors():
            _make_private(path)
            self._connection = sqlite3.connect(path, timeout=1.0, isolation_level=None)
        try:
            with self._errors():
                self._open()
        except BaseException:
            self._connection.close()
            raise
        content = self._read()
        self._attempts = Counter(entry.round for entry in content.rounds)
        self._last = content.rounds[-1] if content.rounds else None
        self._known: Numbers = {declared: number for number, declared in enumerate(content.declarations)}

    def _open(self) -> None:
        database = self._connection
        database.execute("PRAGMA trusted_schema = OFF")  # it may be a stranger's
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("BEGIN EXCLUSIVE")
        stored = self._path.stat().st_size
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        (page,) = database.execute("PRAGMA page_size").fetchone()
        if stored and stored != pages * page:  # SQLite itself takes a file that lost its tail, and reads zeros
            raise LedgerUnusable(self._path, "the ledger is damaged (incomplete)")
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        database.execute("COMMIT")
        (verdict,) = database.execute("PRAGMA quick_check").fetchone()
        if verdict != "ok":
            raise LedgerUnusable(self._path, f"the ledger is damaged ({' '.join(verdict.split())})")
        self._anchor = self._read_anchor()
        if "rounds" in tables and "entries" not in tables:
            self._open_older(tables)
        elif "entries" in tables:
            self._content = self._read_chained()
        else:
            self._content = LedgerContent()
        problem = None if self._older else anchor_problem(self._anchor, self._heads, self._key)
        if problem is not None:
            raise LedgerUnusable(self._path, problem)

    def _open_older(self, tables: set[str]) -> None:
        if self._anchor != NO_ANCHOR:
            raise LedgerUnusable(self._path, "the ledger is of an older format, and ledger.head is not of it")
        if self._key is not None:
            raise LedgerUnusable(self._path, f"the ledger is not sealed with the key that {KEY_VARIABLE} names")
        self._older, self._content = True, read_older(self._connection, tables)

    def _read_anchor(self) -> Anchor:
        try:
            return read_anchor(self._path)
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerUnusable(self._path, f"ledger.head can't be read ({error}); put it back from a copy") from None

    def _read_chained(self) -> LedgerContent:
        """All entries, if each follows from the one before; where the ledger was read already, the same as then."""
        rows = self._connection.execute("SELECT id, entry, head FROM entries ORDER BY id").fetchall()
        if [number for number, _, _ in rows] != list(range(1, len(rows) + 1)):
            raise LedgerUnusable(self._path, "entries of the ledger are missing or were moved")
        heads = heads_of(entry for _, entry, _ in rows)
        changed = first_difference(heads, [head for _, _, head in rows])
        if changed is not None:
            raise LedgerUnusable(self._path, f"entry {changed} of the ledger, or one before it, was changed or moved")
        if self._heads and self._heads != heads:
            raise LedgerUnusable(self._path, "the ledger was changed while it was in use")
        self._heads = heads
        content = LedgerContent()
        for _, entry, _ in rows:
            content.add(entry)
        return content

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    # Reading

    @property
    def chained(self) -> bool:
        return not self._older

    @property
    def head(self) -> str:
        """The head of the chain, which fixes all its entries."""
        return self._heads[-1] if self._heads else GENESIS

    @property
    def summary(self) -> LedgerSummary:
        if self._older:
            return LedgerSummary(len(self.rounds()), None)
        sealed = Seal.NONE if self._anchor.seal is None else Seal.UNCHECKED
        return LedgerSummary(len(self._heads), self.head, sealed if self._key is None else Seal.CHECKED)

    def check(self, pin: Pin, text: str) -> bool:
        """Whether a digest of this text was kept at the beginning; an error where that of another one was."""
        digest = (self._read().pins or {}).get(pin)
        if digest is not None and digest != text_digest(text):
            raise LedgerChanged(self._path, pin)
        return digest is not None

    def check_head(self, head: str) -> None:
        """Refuse a ledger that never had this head (or its first characters): it lacks something it held then."""
        wanted = head.strip().lower()
        if len(wanted) < SHORT_HEAD or not set(wanted) <= set("0123456789abcdef"):
            raise ArgumentError("head", f"must be at least {SHORT_HEAD} characters of a head, not {head!r}")
        if not any(known.startswith(wanted) for known in self._heads):
            why = "it is another one, or an older copy" if self.chained else "it is not chained (an older format)"
            raise LedgerUnusable(self._path, f"the ledger never had the head {wanted[:SHORT_HEAD]}: {why}")

    def check_covers(self, rounds: int) -> None:
        """Refuse a ledger that lacks a round whose model was published: it would claim less than was spent."""
        missing = set(range(rounds)) - {entry.round for entry in self.rounds()}
        if missing:
            raise LedgerUnusable(self._path, f"the ledger lacks {len(missing)} of the {rounds} published rounds")

    def rounds(self) -> list[LedgerRound]:
        """All attempts at rounds, in order."""
        return list(self._read().rounds)

    @property
    def unfinished(self) -> LedgerRound | None:
        """The attempt that was charged last, if what it did is not on record."""
        return None if self._last is None or self._last.executed else self._last

    def charges(self) -> list[Charge]:
        """Everything that was paid for, also for attempts that were never published."""
        return [charge for entry in self.rounds() for charge in entry.charges]

    def receipts(self) -> list[Receipt]:
        """What each round's last attempt did, for rounds that were executed."""
        last = {entry.round: entry for entry in self.rounds()}
        return [receipt for entry in last.values() for receipt in entry.receipts or ()]

    def _read(self) -> LedgerContent:
        if self._content is None:
            with self._errors():
                self._content = self._read_chained()
        return self._content

    # Adding

    def begin(self, pins: Mapping[Pin, str]) -> None:
        """Hold a new ledger to these texts, by their digests; an error where it was begun with others."""
        if self.chained and not self._heads:
            self._append(begin_entry({pin: text_digest(text) for pin, text in pins.items()}), {})
        for pin, text in pins.items():
            if not self.check(pin, text):
                raise LedgerUnusable(self._path, f"the ledger has no digest of the {pin.name.lower()}")

    def charge(self, round: int, cohort: Sequence[int], charges: Sequence[Charge]) -> None:
        """Write what a round costs and sync it to the disk. Only after this may the round be sent to its clients.

        From then on somebody may see part of it, whatever happens to this process.
        """
        if self.chained and not self._heads:
            raise FedveilError(f"{self._path}: the ledger was not begun")
        members = set(cohort)
        if any(charge.round != round or charge.client not in members for charge in charges):
            raise FedveilError(f"{self._path}: charges of another round or cohort were given for round {round}")
        charged = LedgerRound(round, self._attempts[round], tuple(cohort), tuple(charges))
        self._append(*charge_entry(charged, self._known))
        self._attempts[round] += 1
        self._last = charged

    def execute(self, round: int, receipts: Sequence[Receipt], arrived: Sequence[int] | None = None) -> None:
        """Write what the attempt that was charged last did, as it was executed, to all of its cohort or to `arrived`.

        Who was charged and did not arrive stays charged.
        """
        charged = self._last
        if charged is not None and arrived is not None:
            charged = replace(charged, absent=tuple(client for client in charged.cohort if client not in set(arrived)))
        pairs = sorted((receipt.client, receipt.did.place) for receipt in receipts)
        wanted = [] if charged is None else sorted((each.client, each.declared.place) for each in charged.due)
        if charged is None or charged.executed or charged.round != round or pairs != wanted:
            raise FedveilError(f"{self._path}: round {round} did something else than it was charged for")
        self._append(*execute_entry(charged, receipts, self._known))
        self._last = None

    def _append(self, entry: str, new: Numbers) -> None:
        """Commit an entry, with the declarations that are new in it, then let the anchor know.

        An earlier entry that the anchor does not know of comes first.
        """
        if self._older:
            raise FedveilError(f"{self._path}: a ledger of an older format; this version reads it and adds nothing")
        if self._anchor.seal is not None and self._key is None:
            raise FedveilError(f"{self._path}: sealed with a key; let {KEY_VARIABLE} name its file to go on")
        self._keep_anchor()
        head = next_head(self.head, entry)
        with self._errors(), self._transaction() as database:
            database.execute(_SCHEMA)
            database.execute("INSERT INTO entries VALUES (?, ?, ?)", (len(self._heads) + 1, entry, head))
        self._heads.append(head)
        self._known |= new
        self._content = None
        self._keep_anchor()

    def _keep_anchor(self) -> None:
        if self._anchor.length != len(self._heads):
            self._anchor = write_anchor(self._path, len(self._heads), self.head, self._key)

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
            if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise LedgerBusy(f"{self._path}: another process is working on this run") from None
            raise LedgerUnusable(self._path, f"the ledger can't be used ({error})") from None
        except (sqlite3.Error, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise LedgerUnusable(self._path, f"the ledger can't be read ({error})") from None


def _make_private(path: Path) -> None:
    """A ledger tells who took part: only its owner may read it. SQLite's journal has the same permissions."""
    with suppress(OSError):  # what can't be made here, SQLite refuses in its own words
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, PRIVATE_FILE))
