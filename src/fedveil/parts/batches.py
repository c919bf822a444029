"""Which of its records a client uses in each local step.

A draw gives positions `[steps, slots]` into the client's own records, and how many slots of each step are
filled. Divisors and noise use the declared size, never the realised number of records.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from fedveil.core.checks import FieldError, count
from fedveil.core.deferred import np, special
from fedveil.core.types import Sampling
from fedveil.mechanisms.arithmetic import LONG_SUM

if TYPE_CHECKING:
    import numpy.typing as npt

OVERFLOW_PROBABILITY = 1e-10
"""How rarely a Poisson batch with no stated cap may overflow its slots."""


@dataclass(frozen=True)
class Draw:
    """Positions `[steps, slots]` into a client's records; `counts[s]` slots of step `s` are filled, from the left."""

    positions: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


@dataclass(frozen=True)
class PoissonBatch:
    """Each record joins each step by its own coin with probability `size`/N.

    A batch has `cap` slots; a larger draw is cut to a uniformly chosen `cap` of its records, which the accountant
    reads from `Sampling.cap`. Without a stated cap it is chosen so that this happens with probability 1e-10 a step.
    An empty batch is a step like any other: it adds its noise.
    """

    kind: ClassVar[str] = "poisson"
    size: int
    cap: int | None = None

    def __post_init__(self) -> None:
        count("size", self.size)
        if self.cap is not None and self.cap < self.size:
            raise FieldError("cap", f"must be at least the expected batch size {self.size}, not {self.cap}")

    def declared(self, records: int) -> int:
        return self.size

    def slots(self, records: int) -> int:
        return min(self.cap or poisson_cap(records, self.size), records)

    def draw(self, records: int, steps: int, generator: np.random.Generator) -> Draw:
        slots = self.slots(records)
        joined = generator.random((steps, records)) < self.size / records
        for step in np.flatnonzero(joined.sum(axis=1) > slots):
            drawn = np.flatnonzero(joined[step])
            joined[step, generator.choice(drawn, size=len(drawn) - slots, replace=False)] = False
        counts = joined.sum(axis=1)
        positions = np.zeros((steps, slots), dtype=np.int64)
        positions[np.arange(slots) < counts[:, None]] = np.nonzero(joined)[1]
        return Draw(positions, counts)

    def sampling(self, records: int, steps: int) -> Sampling:
        return Sampling(self.kind, records, self.size, self.slots(records), uses=steps)


@dataclass(frozen=True)
class WithoutReplacement:
    """A fresh uniform subset of exactly `size` records in each step."""

    kind: ClassVar[str] = "without-replacement"
    size: int

    def __post_init__(self) -> None:
        count("size", self.size)

    def declared(self, records: int) -> int:
        return self.size

    def slots(self, records: int) -> int:
        return self.size

    def draw(self, records: int, steps: int, generator: np.random.Generator) -> Draw:
        order = generator.permuted(np.tile(np.arange(records), (steps, 1)), axis=1)
        return Draw(order[:, : self.size].astype(np.int64), np.full(steps, self.size, dtype=np.int64))

    def sampling(self, records: int, steps: int) -> Sampling:
        return Sampling(self.kind, records, self.size, self.size, uses=steps)


@dataclass(frozen=True)
class PartitionBatch:
    """Shuffle, then go through disjoint batches of `size`; reshuffle after each epoch.

    Records left over when `size` does not divide N sit out that epoch, so every batch is full. Shuffling is not
    sampling: it amplifies nothing, a record is simply used at most once an epoch.
    """

    kind: ClassVar[str] = "partition"
    size: int

    def __post_init__(self) -> None:
        count("size", self.size)

    def declared(self, records: int) -> int:
        return self.size

    def slots(self, records: int) -> int:
        return self.size

    def draw(self, records: int, steps: int, generator: np.random.Generator) -> Draw:
        batches = records // self.size
        epochs = -(-steps // batches)
        shuffles = [generator.permutation(records)[: batches * self.size] for _ in range(epochs)]
        positions = np.concatenate(shuffles).reshape(-1, self.size)[:steps]
        return Draw(positions.astype(np.int64), np.full(steps, self.size, dtype=np.int64))

    def sampling(self, records: int, steps: int) -> Sampling:
        return Sampling(self.kind, records, self.size, self.size, uses=-(-steps // (records // self.size)))


@dataclass(frozen=True)
class AllocatedBatch:
    """Each record goes to one of the L steps of a round, chosen uniformly and by itself ("balls in bins").

    Unlike a shuffled partition this amplifies: nobody knows in which step a record was, and it is in exactly one.
    `size` is what noise and divisors use, the expected N/L of a round of L = N/`size` steps. A batch has `cap` slots; a
    step to which more records went is cut to a uniformly chosen `cap` of them. Without a stated cap it is chosen so
    that this happens with probability 1e-10 a step. An empty batch is a step like any other.
    """

    kind: ClassVar[str] = "allocated"
    size: int
    cap: int | None = None

    def __post_init__(self) -> None:
        count("size", self.size)
        if self.cap is not None and self.cap < self.size:
            raise FieldError("cap", f"must be at least the expected batch size {self.size}, not {self.cap}")

    def declared(self, records: int) -> int:
        return self.size

    def slots(self, records: int) -> int:
        return min(self.cap or poisson_cap(records, self.size), records)

    def draw(self, records: int, steps: int, generator: np.random.Generator) -> Draw:
        slots, chosen = self.slots(records), generator.integers(steps, size=records)
        positions = np.zeros((steps, slots), dtype=np.int64)
        counts = np.zeros(steps, dtype=np.int64)
        for step in range(steps):
            mine = np.flatnonzero(chosen == step)
            if len(mine) > slots:
                mine = np.sort(generator.choice(mine, size=slots, replace=False))
            positions[step, : len(mine)] = mine
            counts[step] = len(mine)
        return Draw(positions, counts)

    def sampling(self, records: int, steps: int) -> Sampling:
        return Sampling(self.kind, records, self.size, self.slots(records), uses=1)


@dataclass(frozen=True)
class FullBatch:
    """Every step uses all of the client's records; the declared batch size is N."""

    kind: ClassVar[str] = "all"

    def declared(self, records: int) -> int:
        return records

    def slots(self, records: int) -> int:
        return records

    def draw(self, records: int, steps: int, generator: np.random.Generator) -> Draw:
        # The rounding of long sums counts on random slots (docs/numbers.md): else a record less would move all others.
        order = generator.permutation(records) if records > LONG_SUM else np.arange(records)
        return Draw(np.tile(order, (steps, 1)), np.full(steps, records, dtype=np.int64))

    def sampling(self, records: int, steps: int) -> Sampling:
        return Sampling(self.kind, records, records, records, uses=steps)


BatchSampler = PoissonBatch | WithoutReplacement | PartitionBatch | AllocatedBatch | FullBatch


@lru_cache(maxsize=1024)
def poisson_cap(records: int, size: int) -> int:
    """The fewest slots that Binomial(records, size/records) overflows with at most `OVERFLOW_PROBABILITY`."""
    if size >= records:
        return records
    sizes = np.arange(size, records + 1)
    overflow = special.bdtrc(sizes, records, size / records)  # P(more than `sizes` records)
    return int(sizes[np.argmax(overflow <= OVERFLOW_PROBABILITY)])
