"""How the entries of a ledger hang together: each head is a hash of the head before it and of the entry's own text.

So the last head fixes every entry and their order. An entry that is changed, removed, added or moved changes all heads
from there on. Cutting off the end leaves a chain that is right by itself; that is why length and head are also kept
outside the ledger (`anchor.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from fedveil.core.digests import keyed_digest

GENESIS = hashlib.sha256(b"fedveil ledger, format 3").hexdigest()
"""The head of a ledger without entries."""

SHORT_HEAD = 16
"""So many characters of a head are printed; with fewer than these nothing is compared."""


def next_head(head: str, entry: str) -> str:
    """The head after an entry. A head is always 32 bytes long, so where it ends and the entry begins is fixed."""
    return hashlib.sha256(bytes.fromhex(head) + entry.encode()).hexdigest()


def heads_of(entries: Iterable[str]) -> list[str]:
    """The head after each entry."""
    heads, head = [], GENESIS
    for entry in entries:
        head = next_head(head, entry)
        heads.append(head)
    return heads


def first_difference(computed: Sequence[str], stored: Sequence[str]) -> int | None:
    """The number, from 1, of the first entry whose stored head does not follow from what stands before it."""
    return next((n for n, (mine, its) in enumerate(zip(computed, stored, strict=True), 1) if mine != its), None)


def seal_of(key: bytes, length: int, head: str) -> str:
    """What only a holder of the key can say of a ledger of this length and head."""
    return keyed_digest(key, f"fedveil ledger, format 3: {length} {head}")
