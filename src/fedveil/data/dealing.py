"""Dealing records to clients: the vectorised arithmetic behind `partitions`.

Everything here is NumPy on whole arrays, because ten thousand clients of five hundred records are five
million indices. Within one client a record is never dealt twice.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from fedveil.core.errors import FedveilError
from fedveil.data.row_lists import RowNumbers

Integers = NDArray[np.int64]
Probabilities = NDArray[np.float64]


def generator(seed: int, purpose: str) -> np.random.Generator:
    """A random stream of its own for each purpose, so that asking for tests doesn't change who holds what."""
    entropy = np.frombuffer(hashlib.sha256(purpose.encode()).digest(), dtype="<u4")
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, *entropy.tolist()])))


def counts_of(labels: Integers, classes: int) -> Integers:
    """How many records there are of each label."""
    return np.bincount(labels, minlength=classes)


def deal_in_passes(items: int, clients: int, hand: int, dealing: np.random.Generator) -> RowNumbers:
    """Deal `hand` of the `items` to each client: [clients, hand].

    One pass is a fresh shuffle dealt without repetition until no full hand is left; the next clients are
    served by the next pass. So the hands are disjoint as long as clients × hand ≤ items.
    """
    served = items // hand
    hands = np.empty((clients, hand), dtype=np.int32)
    for first in range(0, clients, served):
        now = min(served, clients - first)
        hands[first : first + now] = dealing.choice(items, now * hand, replace=False).reshape(now, hand)
    return hands


def choose_independently(items: int, clients: int, hand: int, choosing: np.random.Generator) -> RowNumbers:
    """A random choice of `hand` of the `items` for each client, whatever the others hold: [clients, hand]."""
    if hand == items:
        return np.tile(np.arange(items, dtype=np.int32), (clients, 1))
    hands = np.empty((clients, hand), dtype=np.int32)
    for client in range(clients):
        hands[client] = choosing.choice(items, hand, replace=False)
    return hands


def draw_label_counts(
    preferences: Probabilities, room: Integers, total: int, part: str, drawing: np.random.Generator
) -> Integers:
    """Multinomial label counts for each client, [clients, classes], every row summing to `total`.

    No row asks for more of a label than exists (`room`): the excess is drawn again from the client's
    remaining labels. Each repetition fills at least one label per client concerned, so there are at most
    `classes` of them.
    """
    reachable = np.where(preferences > 0, room, 0).sum(axis=1)
    if reachable.min() < total:
        client = int(reachable.argmin())
        raise FedveilError(
            f"client {client} needs {total} {part} records, but its labels have only {reachable[client]}"
        )
    counts = np.zeros(preferences.shape, dtype=np.int64)
    short = np.arange(len(preferences))
    missing = np.full(len(preferences), total, dtype=np.int64)
    while len(short):
        open_labels = np.where(counts[short] < room, preferences[short], 0.0)
        open_labels /= open_labels.sum(axis=1, keepdims=True)
        counts[short] = np.minimum(counts[short] + drawing.multinomial(missing, open_labels), room)
        missing = total - counts[short].sum(axis=1)
        short, missing = short[missing > 0], missing[missing > 0]
    return counts


def deal_by_label(labels: Integers, wanted: Integers, dealing: np.random.Generator) -> RowNumbers:
    """Give each client `wanted[client, label]` records of each label: [clients, records].

    The records of a label are shuffled once and dealt around: client after client takes the next ones,
    beginning again when they run out. That spreads repetition evenly and, as no one wants more than exist,
    gives no client a record twice.
    """
    clients, classes = wanted.shape
    hands = np.empty((clients, int(wanted[0].sum())), dtype=np.int32)
    row_starts = np.arange(clients) * hands.shape[1]
    flat = hands.reshape(-1)
    order = dealing.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    label_starts = np.concatenate([[0], np.cumsum(counts_of(labels, classes))])
    column_starts = np.cumsum(wanted, axis=1) - wanted
    for label in range(classes):
        sizes = wanted[:, label]
        pile = order[label_starts[label] : label_starts[label + 1]]
        dealt = np.arange(int(sizes.sum()))
        before = np.cumsum(sizes) - sizes
        targets = np.repeat(row_starts + column_starts[:, label] - before, sizes) + dealt
        flat[targets] = pile[dealt % len(pile)] if len(pile) else 0
    return hands
