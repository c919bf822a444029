"""The entries of a ledger: what each of the three kinds says, as text and read back.

`begin` holds digests of what must not change, and random bytes, so that a head that is published tells nobody whether
a guess of what the ledger holds is right. `charge` is what an attempt at a round costs. `execute` is what it did.
"""

from __future__ import annotations

import datetime
import json
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fedveil.core.types import Charge, Declaration, Receipt, Sampling, Unit


@dataclass(frozen=True)
class LedgerRound:
    """An attempt at a round: what it was charged, and what it did. `receipts` is None until that is on record."""

    round: int
    attempt: int
    cohort: tuple[int, ...]
    charges: tuple[Charge, ...] = ()
    receipts: tuple[Receipt, ...] | None = None

    @property
    def executed(self) -> bool:
        return self.receipts is not None


@dataclass
class LedgerContent:
    """Everything that the entries of a ledger say, as far as they were read (`add`)."""

    pins: dict[str, str] | None = None
    rounds: list[LedgerRound] = field(default_factory=list)
    _attempts: Counter[int] = field(default_factory=Counter, repr=False)
    _known: dict[Declaration, Declaration] = field(default_factory=dict, repr=False)

    def add(self, entry: str) -> None:
        """Read the next entry. ValueError, KeyError, TypeError or IndexError where it can't be the next one."""
        table = json.loads(entry)
        kind = table["kind"]
        if (kind == "begin") != (self.pins is None):
            raise ValueError("it does not begin with its beginning")
        if kind == "begin":
            self.pins = {str(pin): str(digest) for pin, digest in table["pins"].items()}
        elif kind == "charge":
            self._add_charged(table)
        elif kind == "execute":
            self._add_executed(table)
        else:
            raise ValueError(f"there are no entries of the kind {kind!r}")

    def _add_charged(self, table: dict[str, Any]) -> None:
        round, attempt, made = _whole(table["round"]), _whole(table["attempt"]), self._declarations(table)
        if attempt != self._attempts[round]:
            raise ValueError(f"an attempt at round {round} is missing")
        self._attempts[round] += 1
        charges = tuple(Charge(round, _whole(client), made[kind]) for client, kind in table["charges"])
        self.rounds.append(LedgerRound(round, attempt, tuple(map(_whole, table["cohort"])), charges))

    def _add_executed(self, table: dict[str, Any]) -> None:
        last, made = self.rounds[-1], self._declarations(table)
        if (last.round, last.attempt, last.receipts) != (table["round"], table["attempt"], None):
            raise ValueError(f"round {table['round']} was executed without being charged")
        receipts = tuple(
            Receipt(last.round, _whole(client), made[kind], bool(confirmed), _whole(draws))
            for client, kind, confirmed, draws in table["receipts"]
        )
        self.rounds[-1] = replace(last, receipts=receipts)

    def _declarations(self, table: dict[str, Any]) -> list[Declaration]:
        """Equal ones are one object: a table compares thousands of them."""
        made = [read_declaration(each) for each in table["declarations"]]
        return [self._known.setdefault(each, each) for each in made]


def begin_entry(pins: Mapping[str, str]) -> str:
    return json.dumps({"kind": "begin", "time": _now(), "random": secrets.token_hex(32), "pins": dict(pins)})


def charge_entry(charged: LedgerRound) -> str:
    declarations, places = _numbered(charge.declared for charge in charged.charges)
    return json.dumps({
        "kind": "charge", "time": _now(), "round": charged.round, "attempt": charged.attempt,
        "cohort": list(charged.cohort), "declarations": declarations,
        "charges": [(charge.client, place) for charge, place in zip(charged.charges, places, strict=True)],
    })  # fmt: skip


def execute_entry(charged: LedgerRound, receipts: Sequence[Receipt]) -> str:
    declarations, places = _numbered(receipt.did for receipt in receipts)
    return json.dumps({
        "kind": "execute", "time": _now(), "round": charged.round, "attempt": charged.attempt,
        "declarations": declarations,
        "receipts": [(r.client, place, r.confirmed, r.draws) for r, place in zip(receipts, places, strict=True)],
    })  # fmt: skip


def read_declaration(table: dict[str, Any]) -> Declaration:
    return Declaration(**{**table, "unit": Unit(table["unit"]), "sampling": Sampling(**table["sampling"])})


def _numbered(declarations: Iterable[Declaration]) -> tuple[list[dict[str, Any]], list[int]]:
    """Each declaration once, and for each that was given its place among these."""
    known: dict[Declaration, int] = {}
    places = [known.setdefault(declaration, len(known)) for declaration in declarations]
    return [asdict(declaration) for declaration in known], places


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"expected a whole number, not {value!r}")
    return value


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
