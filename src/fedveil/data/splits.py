"""Fixed divisions into a training and a validation part.

The order comes from SHA-256 of a text, not from a random generator, so that the same records are in the same
part on every machine and with every version of every library.
"""

from __future__ import annotations

import hashlib

import numpy as np

from fedveil.data.dealing import Integers

HELD_OUT = 0.25
"""The share of each site's own records that a model is measured on, if nothing is said."""


def shuffled(name: str, count: int) -> Integers:
    """0 … count−1 in the order of SHA-256 of "name:index"."""
    # The first 16 of a digest's 32 bytes as two numbers: millions of records fit, and no two are alike.
    digests = (hashlib.sha256(f"{name}:{index}".encode()).digest()[:16] for index in range(count))
    halves = np.fromiter(digests, dtype="S16", count=count)
    high, low = np.ascontiguousarray(halves).view(">u8").reshape(count, 2).T
    return np.lexsort((low, high)).astype(np.int64)


def split(name: str, count: int, validation: int) -> tuple[Integers, Integers]:
    """Indices of the training and of the validation part, each ascending."""
    order = shuffled(name, count)
    return np.sort(order[: count - validation]), np.sort(order[count - validation :])


def stratified_split(name: str, labels: Integers, validation: int) -> tuple[Integers, Integers]:
    """Like `split`, with every label in both parts in (almost) the same proportion.

    Each label gives its share to the validation part, rounded by the largest remainder so that the total
    fits.
    """
    counts = np.bincount(labels)
    shares = counts * validation / len(labels)
    quota = np.floor(shares).astype(np.int64)
    by_remainder = np.argsort(-(shares - quota), kind="stable")
    quota[by_remainder[: validation - int(quota.sum())]] += 1

    order = shuffled(name, len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    held_out = rank < quota[labels[order]]
    return np.sort(order[~held_out]), np.sort(order[held_out])
