"""The ledger: what every round is charged, on disk before the round is sent to its clients, and what was executed.

Entries are only ever added, and each is chained to those before it (`chained_file.py`). A round that is repeated
after a crash is a new attempt; the earlier attempt stays, because nobody can prove that nothing of it was seen. The
ledger may therefore claim more than was published, never less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path

from fedveil.core.digests import text_digest
from fedveil.core.errors import FedveilError
from fedveil.core.types import Charge, Receipt
from fedveil.ledger.anchor import KEY_VARIABLE, NO_ANCHOR, LedgerSummary
from fedveil.ledger.chained_file import ChainedFile
from fedveil.ledger.entries import LedgerContent, LedgerRound, Numbers, begin_entry, charge_entry, execute_entry
from fedveil.ledger.ledger_errors import LedgerChanged, LedgerUnusable, Pin
from fedveil.ledger.older_formats import read_older


class Ledger(ChainedFile):
    """One run's ledger; use it as a context manager. Only one process at a time can hold it."""

    def __init__(self, path: Path, *, key: bytes | None = None) -> None:
        self._content: LedgerContent | None = None
        super().__init__(path, key=key)
        content = self._read()
        self._attempts = Counter(entry.round for entry in content.rounds)
        self._last = content.rounds[-1] if content.rounds else None
        self._known: Numbers = {declared: number for number, declared in enumerate(content.declarations)}

    def _take(self, entries: list[str]) -> None:
        content = LedgerContent()
        for entry in entries:
            content.add(entry)
        self._content = content

    def _open_older(self, tables: Set[str]) -> bool:
        if "rounds" not in tables:
            return False
        if self._anchor != NO_ANCHOR:
            raise LedgerUnusable(self._path, "the ledger is of an older format, and ledger.head is not of it")
        if self._key is not None:
            raise LedgerUnusable(self._path, f"the ledger is not sealed with the key that {KEY_VARIABLE} names")
        self._content = read_older(self._connection, tables)
        return True

    def _read(self) -> LedgerContent:
        if self._content is None:
            with self._errors():
                self._take(self._read_entries())
        assert self._content is not None
        return self._content

    # Reading

    @property
    def summary(self) -> LedgerSummary:
        return LedgerSummary(len(self.rounds()), None) if self._older else super().summary

    def check(self, pin: Pin, text: str) -> bool:
        """Whether a digest of this text was kept at the beginning; an error where that of another one was."""
        digest = (self._read().pins or {}).get(pin)
        if digest is not None and digest != text_digest(text):
            raise LedgerChanged(self._path, pin)
        return digest is not None

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
            present = set(arrived)
            charged = replace(charged, absent=tuple(client for client in charged.cohort if client not in present))
        pairs = sorted((receipt.client, receipt.did.place) for receipt in receipts)
        wanted = [] if charged is None else sorted((each.client, each.declared.place) for each in charged.due)
        if charged is None or charged.executed or charged.round != round or pairs != wanted:
            raise FedveilError(f"{self._path}: round {round} did something else than it was charged for")
        self._append(*execute_entry(charged, receipts, self._known))
        self._last = None

    def _append(self, entry: str, new: Numbers) -> None:
        """Add an entry, with the declarations that are new in it."""

        def committed() -> None:
            self._known |= new
            self._content = None

        self._add(entry, committed)
