"""The entries of a ledger: what each of the three kinds says, as text and read back.

`begin` holds digests of what must not change, and random bytes, so that a head that is published tells nobody whether
a guess of what the ledger holds is right. `charge` is what an attempt at a round costs. `execute` is what it did. Both
refer to declarations by their number in the ledger, and hold those that no entry before them has.
"""

from __future__ import annotations

import datetime
import json
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fedveil.core.declaration_records import read_declaration
from fedveil.core.types import Charge, Declaration, Receipt

Numbers = dict[Declaration, int]
"""The declarations of a ledger, and their numbers in it."""


@dataclass(frozen=True)
class LedgerRound:
    """An attempt at a round: what it was charged, and what it did. `receipts` is None until that is on record.

    All of the cohort are charged. `absent` are those of them who did not answer, and so have no receipts.
    """

    round: int
    attempt: int
    cohort: tuple[int, ...]
    charges: tuple[Charge, ...] = ()
    receipts: tuple[Receipt, ...] | None = None
    absent: tuple[int, ...] = ()

    @property
    def executed(self) -> bool:
        return self.receipts is not None

    @property
    def arrived(self) -> tuple[int, ...]:
        absent = set(self.absent)
        return tuple(client for client in self.cohort if client not in absent)

    @property
    def due(self) -> tuple[Charge, ...]:
        """What those who have arrived were charged."""
        absent = set(self.absent)
        return self.charges if not absent else tuple(one for one in self.charges if one.client not in absent)


@dataclass
class LedgerContent:
    """Everything that the entries of a ledger say, as far as they were read (`add`)."""

    pins: dict[str, str] | None = None
    rounds: list[LedgerRound] = field(default_factory=list)
    declarations: list[Declaration] = field(default_factory=list)
    _attempts: Counter[int] = field(default_factory=Counter, repr=False)

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
        round, attempt = _whole(table["round"]), _whole(table["attempt"])
        if attempt != self._attempts[round]:
            raise ValueError(f"an attempt at round {round} is missing")
        self._attempts[round] += 1
        self._add_declarations(table)
        charges = tuple(Charge(round, _whole(client), self._numbered(kind)) for client, kind in table["charges"])
        self.rounds.append(LedgerRound(round, attempt, tuple(map(_whole, table["cohort"])), charges))

    def _add_executed(self, table: dict[str, Any]) -> None:
        last = self.rounds[-1]
        if (last.round, last.attempt, last.receipts) != (table["round"], table["attempt"], None):
            raise ValueError(f"round {table['round']} was executed without being charged")
        self._add_declarations(table)
        receipts = tuple(
            Receipt(last.round, _whole(client), self._numbered(kind), bool(confirmed), _whole(draws))
            for client, kind, confirmed, draws in table["receipts"]
        )
        absent = tuple(map(_whole, table.get("absent", ())))
        if not set(absent) <= set(last.cohort):
            raise ValueError(f"round {last.round}: clients are absent who were not drawn")
        self.rounds[-1] = replace(last, receipts=receipts, absent=absent)

    def _add_declarations(self, table: dict[str, Any]) -> None:
        self.declarations += [read_declaration(each) for each in table["declarations"]]

    def _numbered(self, number: object) -> Declaration:
        """Equal declarations are one object, because a table compares thousands of them."""
        place = _whole(number)
        if place >= len(self.declarations):
            raise ValueError(f"declaration {place} is missing")
        return self.declarations[place]


def begin_entry(pins: Mapping[str, str]) -> str:
    return json.dumps({"kind": "begin", "time": _now(), "random": secrets.token_hex(32), "pins": dict(pins)})


def charge_entry(charged: LedgerRound, known: Numbers) -> tuple[str, Numbers]:
    """The entry, and the declarations that are new in it."""
    numbers, new = _numbers_of([charge.declared for charge in charged.charges], known)
    text = json.dumps({
        "kind": "charge", "time": _now(), "round": charged.round, "attempt": charged.attempt,
        "cohort": charged.cohort, "declarations": [asdict(declared) for declared in new],
        "charges": [(charge.client, number) for charge, number in zip(charged.charges, numbers, strict=True)],
    })  # fmt: skip
    return text, new


def execute_entry(charged: LedgerRound, receipts: Sequence[Receipt], known: Numbers) -> tuple[str, Numbers]:
    """The entry, and the declarations that are new in it. Who is absent is said where somebody is."""
    numbers, new = _numbers_of([receipt.did for receipt in receipts], known)
    text = json.dumps({
        "kind": "execute", "time": _now(), "round": charged.round, "attempt": charged.attempt,
        "declarations": [asdict(did) for did in new],
        "receipts": [(r.client, number, r.confirmed, r.draws) for r, number in zip(receipts, numbers, strict=True)],
        **({"absent": charged.absent} if charged.absent else {}),
    })  # fmt: skip
    return text, new


def _numbers_of(declarations: Sequence[Declaration], known: Numbers) -> tuple[list[int], Numbers]:
    """The numbers of declarations in a ledger that knows some of them, and those that are new to it."""
    new: Numbers = {}
    numbers = []
    for declaration in declarations:
        number = known.get(declaration)
        numbers.append(new.setdefault(declaration, len(known) + len(new)) if number is None else number)
    return numbers, new


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"expected a whole number, not {value!r}")
    return value


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
