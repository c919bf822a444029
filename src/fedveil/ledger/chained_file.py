"""A file of texts that are only ever added, each chained to those before it (`chain.py`), its length kept beside it
(`anchor.py`). What the texts say is for whoever uses it: a run's ledger, or a site's.
"""

from __future__ import annotations

import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from fedveil.core.atomic import PRIVATE_FILE
from fedveil.core.errors import ArgumentError, FedveilError
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
from fedveil.ledger.ledger_errors import LedgerBusy, LedgerUnusable

_SCHEMA = "CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, entry TEXT NOT NULL, head TEXT NOT NULL)"


class ChainedFile(ABC):
    """Use it as a context manager. Only one process at a time can hold it.

    It is checked when it is opened: that every entry follows from the one before, and that it is as long as the anchor
    beside it says. With a `key` it must be sealed with that. Reading writes nothing.
    """

    held = "another process is working on this run"
    """What is said of a file that another process holds."""
    unusable = "the run can't go on"
    """What follows if the file can't be trusted."""

    def __init__(self, path: Path, *, key: bytes | None = None) -> None:
        self._path, self._key = path, key
        self._heads: list[str] = []
        self._anchor: Anchor = NO_ANCHOR
        self._older = False
        with self._errors():
            _make_private(path)
            self._connection = sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)
        try:
            with self._errors():
                self._open()
        except BaseException:
            self._connection.close()
            raise

    @abstractmethod
    def _take(self, entries: list[str]) -> None:
        """Read all entries. ValueError, KeyError, TypeError or IndexError where they can't be those of such a file."""

    def _open_older(self, tables: Set[str]) -> bool:
        """Read a file that is not chained, where there are such formats; whether it is one."""
        return False

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
            raise self._unusable("the ledger is damaged (incomplete)")
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        database.execute("COMMIT")
        (verdict,) = database.execute("PRAGMA quick_check").fetchone()
        if verdict != "ok":
            raise self._unusable(f"the ledger is damaged ({' '.join(verdict.split())})")
        self._anchor = self._read_anchor()
        self._older = "entries" not in tables and self._open_older(tables)
        if not self._older:
            self._take(self._read_entries() if "entries" in tables else [])
        problem = None if self._older else anchor_problem(self._anchor, self._heads, self._key)
        if problem is not None:
            raise self._unusable(problem)

    def _read_anchor(self) -> Anchor:
        try:
            return read_anchor(self._path)
        except (ValueError, KeyError, TypeError) as error:
            raise self._unusable(f"ledger.head can't be read ({error}); put it back from a copy") from None

    def _read_entries(self) -> list[str]:
        """All entries, if each follows from the one before; where the ledger was read already, the same as then."""
        rows = self._connection.execute("SELECT id, entry, head FROM entries ORDER BY id").fetchall()
        if [number for number, _, _ in rows] != list(range(1, len(rows) + 1)):
            raise self._unusable("entries of the ledger are missing or were moved")
        heads = heads_of(entry for _, entry, _ in rows)
        changed = first_difference(heads, [head for _, _, head in rows])
        if changed is not None:
            raise self._unusable(f"entry {changed} of the ledger, or one before it, was changed or moved")
        if self._heads and self._heads != heads:
            raise self._unusable("the ledger was changed while it was in use")
        self._heads = heads
        return [entry for _, entry, _ in rows]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    @property
    def chained(self) -> bool:
        return not self._older

    @property
    def head(self) -> str:
        """The head of the chain, which fixes all its entries."""
        return self._heads[-1] if self._heads else GENESIS

    @property
    def first_head(self) -> str | None:
        """The head after the first entry, which holds random bytes; None where there is no chain, or nothing in it."""
        return self._heads[0] if self._heads else None

    @property
    def summary(self) -> LedgerSummary:
        sealed = Seal.NONE if self._anchor.seal is None else Seal.UNCHECKED
        return LedgerSummary(len(self._heads), self.head, sealed if self._key is None else Seal.CHECKED)

    def check_head(self, head: str) -> None:
        """Refuse a ledger that never had this head (or its first characters): it lacks something it held then."""
        wanted = head.strip().lower()
        if len(wanted) < SHORT_HEAD or not set(wanted) <= set("0123456789abcdef"):
            raise ArgumentError("head", f"must be at least {SHORT_HEAD} characters of a head, not {head!r}")
        if not any(known.startswith(wanted) for known in self._heads):
            why = "it is another one, or an older copy" if self.chained else "it is not chained (an older format)"
            raise self._unusable(f"the ledger never had the head {wanted[:SHORT_HEAD]}: {why}")

    def _add(self, entry: str, committed: Callable[[], None]) -> None:
        """Commit an entry, then let the anchor know. An earlier one that the anchor does not know of comes first.

        `committed` is called between the two: from then on the entry is in the file, whatever becomes of the anchor.
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
        committed()
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

    def _unusable(self, problem: str) -> LedgerUnusable:
        return LedgerUnusable(self._path, problem, self.unusable)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise LedgerBusy(f"{self._path}: {self.held}") from None
            raise self._unusable(f"the ledger can't be used ({error})") from None
        except (sqlite3.Error, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise self._unusable(f"the ledger can't be read ({error})") from None


def _make_private(path: Path) -> None:
    """A ledger tells who took part: only its owner may read it. SQLite's journal has the same permissions."""
    with suppress(OSError):  # what can't be made here, SQLite refuses in its own words
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, PRIVATE_FILE))
