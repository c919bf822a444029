"""Length and head of a ledger, kept in a file beside it, so that a ledger that lost its end is noticed.

The order of writing: an entry is committed and synced in the ledger first, then the anchor is replaced (written whole,
synced, renamed, directory synced), and only then does the call return. So

- before the commit, ledger and anchor both have n − 1 entries;
- between the commit and the rename the ledger has n, the anchor n − 1;
- after it both have n.

Wherever a process is killed, the ledger is therefore ahead by one entry or by none, and never behind. An entry that
the anchor does not know yet was not acted upon: its round was not sent to anybody. The next entry is written only when
the anchor knows all earlier ones, so it is never two behind.

A key of the user's own turns the anchor into a seal (HMAC-SHA256): without the key nobody can make an anchor that fits
another ledger. An older copy of both files keeps its old, right seal; that is noticed by a head that was written down
elsewhere, and by nothing else.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from fedveil.core.atomic import disk_errors, write_whole
from fedveil.core.errors import FedveilError
from fedveil.ledger.chain import GENESIS, SHORT_HEAD, seal_of

KEY_VARIABLE = "FEDVEIL_LEDGER_KEY"
"""The environment variable that names the file with the user's key."""

LEAST_KEY_BYTES = 32


class Seal(StrEnum):
    """Whether a user's key stands behind a ledger."""

    NONE = "none"
    UNCHECKED = "unchecked"
    CHECKED = "checked"


@dataclass(frozen=True)
class Anchor:
    """What is known of a ledger outside it."""

    length: int
    head: str
    seal: str | None = None


NO_ANCHOR = Anchor(0, GENESIS)
"""That of a ledger whose first entry is not safe yet."""


def anchor_path(ledger: Path) -> Path:
    return ledger.with_suffix(".head")


def read_anchor(ledger: Path) -> Anchor:
    """The anchor of a ledger; `NO_ANCHOR` where there is none, ValueError where it can't be read."""
    try:
        table = json.loads(anchor_path(ledger).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return NO_ANCHOR
    except OSError as error:
        raise ValueError(str(error)) from None
    length, head, seal = (table[key] for key in ("length", "head", "seal"))
    if type(length) is not int or length < 0 or not isinstance(head, str) or not isinstance(seal, str | None):
        raise ValueError("not an anchor")
    return Anchor(length, head, seal)


def write_anchor(ledger: Path, length: int, head: str, key: bytes | None) -> Anchor:
    """Replace the anchor of a ledger, and sync it to the disk."""
    anchor = Anchor(length, head, None if key is None else seal_of(key, length, head))
    write_whole(anchor_path(ledger), f"{json.dumps(asdict(anchor))}\n".encode(), private=True)
    return anchor


def anchor_problem(anchor: Anchor, heads: Sequence[str], key: bytes | None) -> str | None:
    """What is wrong with a ledger of these heads beside this anchor; None where they belong together.

    With a key only a ledger that is sealed with it passes.
    """
    length, known = len(heads), [GENESIS, *heads]
    if anchor.length > length:
        lost = f"{length} of the {anchor.length} entries that ledger.head knows of"
        return f"the ledger has {lost}: it was cut off, or an older copy was put back"
    if anchor.length < length - 1:
        if anchor == NO_ANCHOR:
            return "ledger.head is missing, so whether the ledger is complete is not known"
        return f"the ledger has {length} entries, ledger.head knows of {anchor.length}: they do not belong together"
    if known[anchor.length] != anchor.head:
        return "ledger.head is of another ledger, or one of the two was changed"
    if key is not None and anchor.length and not _is_sealed(anchor, key):
        return f"the ledger is not sealed with the key that {KEY_VARIABLE} names"
    return None


def _is_sealed(anchor: Anchor, key: bytes) -> bool:
    return anchor.seal is not None and hmac.compare_digest(anchor.seal, seal_of(key, anchor.length, anchor.head))


def user_key() -> bytes | None:
    """The key in the file that the environment names, if it names one."""
    chosen = os.environ.get(KEY_VARIABLE)
    if not chosen:
        return None
    path = Path(chosen).expanduser()
    with disk_errors(path):
        key = path.read_bytes()
    if len(key) < LEAST_KEY_BYTES:
        raise FedveilError(f"{path}: a key has at least {LEAST_KEY_BYTES} random bytes; {KEY_VARIABLE} names this file")
    return key


@dataclass(frozen=True)
class LedgerSummary:
    """How long a ledger is, its head (None where it is not chained), and whether a key stands behind it."""

    entries: int
    head: str | None
    seal: Seal = Seal.NONE

    def __str__(self) -> str:
        if self.head is None:
            return "ledger: not chained (an older format), so a change of it may go unnoticed"
        sealed = {
            Seal.NONE: "",
            Seal.UNCHECKED: f", sealed with a key ({KEY_VARIABLE} is not set, so that was not checked)",
            Seal.CHECKED: ", sealed with your key",
        }
        return f"ledger: {self.entries} entries, head {self.head[:SHORT_HEAD]}{sealed[self.seal]}"
