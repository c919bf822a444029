"""A site's ledger: what was ever done with its records, by whichever plan, for as long as they exist.

Entries: `begin` holds digests of what must not change. `approve` is somebody's consent to a plan; `withdraw` takes it
back: nothing more is charged for the plan, and what it has cost still counts. `charge` is what an answer will cost, on
disk before anything is computed for it: the plan, the question, and the declarations. `answer` is a digest of the very
bytes, and how many they are, on disk before they are sent. So

- a question without a charge: nothing was computed;
- charged, without an answer: nothing has left, and it may be computed once more, with another key, for the same charge;
- with an answer: these bytes may have left. They can be sent again. Other bytes for the same question are a further
  release, and a further charge.
"""

from __future__ import annotations

import datetime
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedveil.core.declaration_records import read_declaration
from fedveil.core.digests import keyed_digest, text_digest
from fedveil.core.errors import FedveilError
from fedveil.core.types import Declaration
from fedveil.ledger.chain import GENESIS
from fedveil.ledger.chained_file import ChainedFile


@dataclass(frozen=True)
class PaidQuestion:
    """A question that was paid for. `number` counts the charges of this ledger; `answer` is the digest of what left.

    `size` is how many bytes those were; older ledgers do not say.
    """

    number: int
    plan: str
    question: str
    round: int
    declared: tuple[Declaration, ...]
    time: str
    answer: str | None = None
    size: int | None = None


@dataclass(frozen=True)
class Consent:
    """Somebody agreed to a plan, then, and maybe took it back."""

    name: str
    time: str
    withdrawn: str | None = None


class LifetimeLedger(ChainedFile):
    """Use it as a context manager. Only one process at a time can hold it, so a site answers one question at a time."""

    held = "another process of this site holds its ledger; is it serving? end that first"
    unusable = "nothing is answered until that is put right"

    def __init__(self, path: Path, *, key: bytes | None = None) -> None:
        self._pins: dict[str, str] | None = None
        self._consents: dict[str, Consent] = {}
        self._paid: list[PaidQuestion] = []
        self._latest: dict[str, int] = {}
        self._declarations: dict[Declaration, Declaration] = {}
        super().__init__(path, key=key)

    def _take(self, entries: list[str]) -> None:
        for entry in entries:
            self._read(json.loads(entry))

    def _read(self, table: dict[str, Any]) -> None:
        kind = table["kind"]
        if (kind == "begin") != (self._pins is None):
            raise ValueError("it does not begin with its beginning")
        if kind == "begin":
            self._pins = {str(pin): str(digest) for pin, digest in table["pins"].items()}
        elif kind == "approve":
            self._consents[str(table["plan"])] = Consent(str(table["name"]), str(table["time"]))
        elif kind == "withdraw":
            plan = str(table["plan"])
            self._consents[plan] = replace(self._consents[plan], withdrawn=str(table["time"]))
        elif kind == "charge":
            declared = tuple(map(read_declaration, table["declarations"]))
            known = tuple(self._declarations.setdefault(one, one) for one in declared)  # equal ones are one object
            paid = PaidQuestion(len(self._paid), table["plan"], table["question"], table["round"], known, table["time"])
            self._paid.append(paid)
            self._latest[paid.question] = paid.number
        elif kind == "answer":
            number = table["number"]
            if type(number) is not int or self._paid[number].answer is not None:
                raise ValueError("an answer was not paid for, or given twice")
            size = table.get("bytes")
            if size is not None and type(size) is not int:
                raise ValueError("an answer has no such size")
            self._paid[number] = replace(self._paid[number], answer=str(table["digest"]), size=size)
        else:
            raise ValueError(f"there are no entries of the kind {kind!r}")

    def begin(self, pins: Mapping[str, str]) -> None:
        """Hold a new ledger to these texts, by their digests; an error where it was begun with others."""
        digests = {pin: text_digest(text) for pin, text in pins.items()}
        if self._pins is None:
            self._write({"kind": "begin", "random": secrets.token_hex(32), "pins": digests})
        changed = [pin for pin, digest in digests.items() if (self._pins or {}).get(pin) != digest]
        if changed:
            raise FedveilError(f"{self._path}: the {changed[0]} changed since this ledger was begun; put back what was")

    def approve(self, plan: str, name: str) -> None:
        """Somebody here agrees to a plan."""
        self._check_begun()
        if not self.agrees_to(plan):
            self._write({"kind": "approve", "plan": plan, "name": name})

    def withdraw(self, plan: str) -> None:
        """Nobody here agrees to a plan any more. What it has cost stays."""
        if not self.agrees_to(plan):
            raise FedveilError(f"{self._path}: plan {plan} is not approved, so there is nothing to take back")
        self._write({"kind": "withdraw", "plan": plan})

    def charge(self, plan: str, question: str, round: int, declared: Sequence[Declaration]) -> PaidQuestion:
        """Write what an answer costs and sync it to the disk. Only after this may it be computed."""
        self._check_begun()
        if not self.agrees_to(plan):
            raise FedveilError(f"{self._path}: plan {plan} is not approved, so nothing can be charged for it")
        declarations = [asdict(one) for one in declared]
        self._write(
            {"kind": "charge", "plan": plan, "question": question, "round": round, "declarations": declarations}
        )
        return self._paid[-1]

    def answered(self, paid: PaidQuestion, digest: str, size: int) -> None:
        """Write a digest of the answer and its size, and sync it to the disk. Only after this may it be sent."""
        if self._paid[paid.number].answer is not None:
            raise FedveilError(f"{self._path}: charge {paid.number} was answered before")
        self._write({"kind": "answer", "number": paid.number, "digest": digest, "bytes": size})

    def _write(self, table: dict[str, Any]) -> None:
        entry = {**table, "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}
        self._add(json.dumps(entry), lambda: self._read(entry))

    def _check_begun(self) -> None:
        if self._pins is None:
            raise FedveilError(f"{self._path}: the ledger was not begun")

    # Reading

    @property
    def approved(self) -> dict[str, str]:
        """The plans that were ever agreed to, and their names."""
        return {plan: consent.name for plan, consent in self._consents.items()}

    @property
    def consents(self) -> dict[str, Consent]:
        """The same, with when, and whether it was taken back."""
        return dict(self._consents)

    def agrees_to(self, plan: str) -> bool:
        """Whether somebody agreed to a plan and did not take it back."""
        consent = self._consents.get(plan)
        return consent is not None and consent.withdrawn is None

    @property
    def paid(self) -> tuple[PaidQuestion, ...]:
        """All charges, in their order."""
        return tuple(self._paid)

    @property
    def given(self) -> frozenset[int]:
        """The numbers of the charges whose answers may have left."""
        return frozenset(paid.number for paid in self._paid if paid.answer is not None)

    def latest(self, question: str) -> PaidQuestion | None:
        """The last charge of a question."""
        number = self._latest.get(question)
        return None if number is None else self._paid[number]

    def mark(self, key: bytes, giving: int | None = None) -> str:
        """What stands for the ledger as it is now, and tells nobody without the key how long it is.

        In an answer it also stands for this: that the charge `giving` is answered. The answer's own entry can't be in
        the head, since it has a digest of the answer, which has the mark.
        """
        return keyed_digest(key, self.head) + ("" if giving is None else keyed_digest(key, _given(giving)))

    def keeps(self, key: bytes, mark: str) -> bool:
        """Whether this ledger has all that a mark ever stood for."""
        head, given = mark[:_DIGEST], mark[_DIGEST:]
        return any(keyed_digest(key, known) == head for known in reversed([GENESIS, *self._heads])) and (
            not given or any(keyed_digest(key, _given(number)) == given for number in sorted(self.given, reverse=True))
        )


_DIGEST = 64
"""Characters of a keyed digest."""


def _given(number: int) -> str:
    """No head of a chain, which is in hexadecimal, is such a text."""
    return f"answer to charge {number}"
