"""How a run ended, as Python has it and as `result.json` keeps it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from fedveil.accounting.route_caveats import CLEAN_ROWS
from fedveil.core.guarantee import Guarantee
from fedveil.core.types import Unit, View
from fedveil.method import Method

NUMBERS_OF_A_RESULT = (
    "accuracy", "loss", "rounds", "seconds", "receipts", "rejected", "own_accuracy", "personal_accuracy", "sent_bytes",
    "saved_bytes",
)  # fmt: skip

LARGEST_LOSS_OF_A_MODEL = 1e4
"""A constant guess among a million classes has a mean cross-entropy of 14; far beyond it nothing is learned."""


def has_diverged(loss: float) -> bool:
    """Whether a mean loss is not a number, or so large that the training must have left all bounds."""
    return not loss <= LARGEST_LOSS_OF_A_MODEL


def executed_cells(cells: Iterable[Guarantee], method: Method) -> tuple[Guarantee, ...]:
    """Cells that a run kept, as far as it did what they say.

    Runs of formats 1 and 2 kept a finite ε against `on_device` although their rows were clean in memory.
    """
    return tuple(
        cell
        if method.noises_rows or cell.view is not View.ON_DEVICE or cell.epsilon == 0
        else replace(
            cell,
            epsilon=math.inf,
            accountant="none",
            composition="none",
            reason=cell.reason or CLEAN_ROWS,
            secondary=(),
            together=None,
        )
        for cell in cells
    )


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    run: Path
    method: str
    data: str
    accuracy: float
    loss: float
    rounds: int
    seconds: float
    seeded: bool
    receipts: int
    rejected: int
    guarantees: tuple[Guarantee, ...]  # what was spent, cell by cell
    own_accuracy: float | None = None  # mean over clients: the global model on a client's own test set
    personal_accuracy: float | None = None  # mean over clients: its own model on its own test set
    sent_bytes: int = 0  # by all clients together
    saved_bytes: int = 0  # by sending only part of the updates
    ledger_head: str | None = None  # it fixes all that the ledger held at the end; runs of older formats have none

    @property
    def diverged(self) -> bool:
        """Whether the training ended in a model that is worse than any guess."""
        return has_diverged(self.loss)

    def of(self, unit: Unit, view: View) -> Guarantee:
        """What was spent in one cell."""
        return next(cell for cell in self.guarantees if (cell.unit, cell.view) == (unit, view))

    def to_dict(self) -> dict[str, Any]:
        table = {field.name: getattr(self, field.name) for field in fields(self)}
        table |= {"diverged": self.diverged}
        return table | {"run": str(self.run), "guarantees": [cell.to_dict() for cell in self.guarantees]}

    @staticmethod
    def from_dict(table: Mapping[str, Any], run: Path, method: Method) -> Result:
        """What `to_dict` made of a run of a method; KeyError, TypeError or ValueError for anything else."""
        cells = executed_cells((Guarantee.from_dict(cell) for cell in table["guarantees"]), method)
        known = {key: value for key, value in table.items() if key != "diverged"}
        result = Result(**{**known, "run": run, "guarantees": cells})
        for name in NUMBERS_OF_A_RESULT:
            value = getattr(result, name)
            if isinstance(value, bool) or not isinstance(value, int | float | None):
                raise TypeError(f"{name} is not a number: {value!r}")
        return result
