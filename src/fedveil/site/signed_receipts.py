"""A site's receipts in one file: what it added to every answer it gave, signed with its key.

The file has the statement as a text and the signature of that text, so that what was signed is what is read. Whoever
has the site's public key (it is in the plan) can check the signature, and compute ε from the declarations again.
Receipts are statements of an honest site, not proofs: a site that lies harms its own records.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedveil.accounting.alone import bounds_of, spent_over
from fedveil.core.atomic import disk_errors
from fedveil.core.declaration_records import read_declaration
from fedveil.core.errors import FedveilError
from fedveil.core.signing import PublicKey
from fedveil.core.types import Declaration
from fedveil.ledger.lifetime import LifetimeLedger
from fedveil.site.home import SiteHome
from fedveil.site.policy import SitePolicy, read_policy

_FORMAT = 1
_LARGEST = 256 * 2**20
_PURPOSE = b"fedveil receipts of a site\0"


@dataclass(frozen=True)
class ReceiptLine:
    """One answer that was paid for. Without a digest nothing has left."""

    plan: str
    round: int
    time: str
    declared: tuple[Declaration, ...]
    digest: str | None
    size: int | None


@dataclass(frozen=True)
class SignedReceipts:
    """What a file of receipts says, its signature checked."""

    site: str
    key: PublicKey
    records: int
    policy: SitePolicy
    entries: int
    head: str
    made: str
    plans: Mapping[str, str]
    lines: tuple[ReceiptLine, ...]

    @property
    def spent(self) -> float:
        """ε of all plans together, in the cell of the policy, computed from the lines."""
        policy, by_plan = self.policy, dict[str, list[tuple[Declaration, ...]]]()
        for line in self.lines:
            by_plan.setdefault(line.plan, []).append(line.declared)
        bounds = [bounds_of(answers, self.records, policy.unit, policy.view) for answers in by_plan.values()]
        return spent_over(bounds, policy.lifetime.delta)

    @property
    def sent(self) -> int:
        return sum(line.digest is not None for line in self.lines)


def sign_receipts(home: SiteHome, ledger: LifetimeLedger) -> bytes:
    """The file. What an entry says of an answer was on the disk before the answer left."""
    declarations: dict[Declaration, int] = {}
    lines = []
    for paid in ledger.paid:
        numbers = [declarations.setdefault(one, len(declarations)) for one in paid.declared]
        lines.append([paid.plan, paid.round, paid.time, numbers, paid.answer, paid.size])
    statement = {
        "receipts": _FORMAT,
        "site": home.name,
        "key": home.public_key,
        "records": len(home.records),
        "policy": home.policy.to_dict(),
        "ledger": {"entries": ledger.summary.entries, "head": ledger.head},
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "plans": ledger.approved,
        "declarations": [asdict(one) for one in declarations],
        "answers": lines,
    }
    text = json.dumps(statement, sort_keys=True)
    signature = home.signing_key.sign(_PURPOSE + text.encode())
    return (json.dumps({"signature": signature.hex(), "statement": text}, indent=1) + "\n").encode()


def read_signed_receipts(path: str | Path, key: str | None = None) -> SignedReceipts:
    """The receipts in a file. `key` is the site's public key, from its registration or a plan.

    Without it the signature is checked by the key that the file itself names, which shows that nothing was changed
    since, and not who made it.
    """
    path = Path(path)
    with disk_errors(path), path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    try:
        if len(content) > _LARGEST:
            raise ValueError("it is too large")
        table = json.loads(content)
        text, signature = str(table["statement"]), bytes.fromhex(table["signature"])
        said = json.loads(text)
        receipts = _read(said)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, FedveilError) as error:
        raise FedveilError(f"{path}: not a site's receipts ({error})") from None
    if key is not None and receipts.key.hex != key:
        raise FedveilError(f"{path}: signed with the key {receipts.key.hex[:16]}…, not with {key[:16]}…")
    if not receipts.key.confirms(signature, _PURPOSE + text.encode()):
        raise FedveilError(f"{path}: the signature is not that of these receipts; something was changed")
    return receipts


def _read(said: dict[str, Any]) -> SignedReceipts:
    if said["receipts"] != _FORMAT:
        raise ValueError(f"of format {said['receipts']}; this version reads {_FORMAT}")
    declarations = [read_declaration(one) for one in said["declarations"]]
    lines = []
    for plan, round, time, numbers, digest, size in said["answers"]:
        if any(type(number) is not int or number < 0 for number in numbers):
            raise ValueError("no such declaration")
        lines.append(ReceiptLine(plan, round, time, tuple(declarations[number] for number in numbers), digest, size))
    if type(said["records"]) is not int or said["records"] < 1:
        raise ValueError("its number of records")
    return SignedReceipts(
        site=str(said["site"]),
        key=PublicKey.from_hex(said["key"]),
        records=said["records"],
        policy=read_policy(said["policy"]),
        entries=said["ledger"]["entries"],
        head=str(said["ledger"]["head"]),
        made=str(said["made"]),
        plans={str(plan): str(name) for plan, name in said["plans"].items()},
        lines=tuple(lines),
    )
