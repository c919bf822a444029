"""What an audit ends with: a verdict, and the single checks behind it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fedveil.core.guarantee import plain_number


class Verdict(StrEnum):
    """What an audit says about a promise.

    `CONTRADICTED`: what was seen is too unlikely for a method that does what it declares.
    `CONSISTENT`: nothing contradicts the promise, and the guesses would have noticed noise of half the declared size.
    `INCONCLUSIVE`: nothing contradicts the promise, but the guesses would hardly have noticed.
    `NOTHING_PROMISED`: ε is infinite, so there was nothing to contradict.
    """

    CONTRADICTED = "contradicted"
    CONSISTENT = "consistent"
    INCONCLUSIVE = "inconclusive"
    NOTHING_PROMISED = "nothing-promised"


class CheckKind(StrEnum):
    """What an audit compares with the declaration, besides counting guesses. `measured` is said in brackets."""

    NOISE_SIZE = "noise-size"  # what clients send who hold nothing (its size, relative to the declared noise)
    NOISE_REUSE = (
        "noise-reuse"  # any two such noises: clients, rounds, rows, trainings (the largest correlation of signs)
    )
    REPORT_NOISE = "report-noise"  # the noise on reports of norms (its size, relative to the declared noise)
    SENSITIVITY = "sensitivity"  # what one unit moves while the noise stays (its length, relative to the declared one)
    BATCHES = "batches"  # how many records batches hold (how much that varies, relative to what is declared)
    KEYS = "keys"  # keys of new runs (the share that comes back)
    COHORTS = "cohorts"  # who is drawn in two rounds (the share that is drawn in both)


@dataclass(frozen=True)
class Check:
    """One comparison with what is declared.

    `chance` is at most the probability with which a method that does what it declares looks as much unlike it as this
    one did; below `level` that is a contradiction. `samples` is how much was looked at.
    """

    kind: CheckKind
    measured: float
    chance: float
    level: float
    samples: int

    @property
    def contradicts(self) -> bool:
        return self.chance < self.level

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": str(self.kind),
            "measured": plain_number(self.measured),
            "chance": self.chance,
            "level": self.level,
            "samples": self.samples,
            "contradicts": self.contradicts,
        }
