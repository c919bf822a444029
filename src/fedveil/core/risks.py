"""What a guarantee leaves to an attacker, in numbers that need no ε."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FALSE_ALARMS = (0.001, 0.01, 0.1)
"""The false-positive rates at which a true-positive rate is stated."""


@dataclass(frozen=True)
class Risk:
    """The best that anybody can do who must say whether a unit's data was used, by the trade-off between two errors.

    `hits[i]` is the largest true-positive rate at the false-positive rate `FALSE_ALARMS[i]`. `advantage` is the largest
    difference between the two, attained at the false-positive rate `best`. `mean` is μ, where all of it amounts to one
    Gaussian. All are upper bounds, of the worse direction. They say how often a guess is right on average, not how
    certain a guess may be in a single lucky case.
    """

    hits: tuple[float, ...]
    advantage: float
    best: float
    mean: float | None = None

    @property
    def right(self) -> float:
        """How often a guess is right at most, where a fair coin decided whether the data was used."""
        return 0.5 + self.advantage / 2

    def to_dict(self) -> dict[str, Any]:
        hits = [{"fpr": fpr, "tpr": tpr} for fpr, tpr in zip(FALSE_ALARMS, self.hits, strict=True)]
        return {
            "right_guess": self.right,
            "advantage": self.advantage,
            "best_fpr": self.best,
            "tpr_at_fpr": hits,
            "mean": self.mean,
        }

    @staticmethod
    def from_dict(table: Mapping[str, Any]) -> Risk:
        """What `to_dict` made; KeyError, TypeError or ValueError for anything else."""
        hits = tuple(float(one["tpr"]) for one in table["tpr_at_fpr"])
        if len(hits) != len(FALSE_ALARMS):
            raise ValueError(f"risk: {len(hits)} true-positive rates")
        mean = table["mean"]
        return Risk(hits, float(table["advantage"]), float(table["best_fpr"]), None if mean is None else float(mean))


def worse_of(first: Risk, second: Risk) -> Risk:
    """In every number the worse of two."""
    worst = max(first, second, key=lambda risk: risk.advantage)
    means = [risk.mean for risk in (first, second) if risk.mean is not None]
    return Risk(
        tuple(max(pair) for pair in zip(first.hits, second.hits, strict=True)),
        worst.advantage,
        worst.best,
        max(means) if len(means) == 2 else None,
    )
