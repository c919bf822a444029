"""How a run ended, as Python has it and as `result.json` keeps it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from fedveil.accounting.route_caveats import CLEAN_ROWS
from fedveil.core.guarantee import Guarantee
from fedveil.core.objectives import CROSS_ENTROPY, Objective
from fedveil.core.scores import Scores
from fedveil.core.site_guarantees import SiteGuarantees
from fedveil.core.types import Unit, View
from fedveil.method import Method
from fedveil.report.model.guarantee_headline import headline
from fedveil.report.model.score_texts import main_text, scores_text
from fedveil.report.terminal.wrapped_lines import wrapped

NUMBERS_OF_A_RESULT = (
    "accuracy", "loss", "rounds", "seconds", "receipts", "rejected", "own_accuracy", "personal_accuracy", "own_mae",
    "personal_mae", "sent_bytes", "saved_bytes",
)  # fmt: skip


def has_diverged(loss: float, objective: Objective = CROSS_ENTROPY) -> bool:
    """Whether a mean loss is not a number, or so large that the training must have left all bounds."""
    return not loss <= objective.out_of_bounds


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


@dataclass(frozen=True, repr=False)
class Result:
    """How a run ended. `accuracy` is None where labels are numbers; `scores` has all figures."""

    run: Path
    method: str
    data: str
    accuracy: float | None
    loss: float
    rounds: int
    seconds: float
    seeded: bool
    receipts: int
    rejected: int
    guarantees: tuple[Guarantee, ...]  # what was spent, cell by cell
    own_accuracy: float | None = None  # mean over clients: the global model on a client's own test set
    personal_accuracy: float | None = None  # mean over clients: its own model on its own test set
    own_mae: float | None = None  # the same two where labels are numbers: mean absolute errors
    personal_mae: float | None = None
    sent_bytes: int = 0  # by all clients together
    saved_bytes: int = 0  # by sending only part of the updates
    site_guarantees: SiteGuarantees | None = None  # each named site's own ε
    ledger_head: str | None = None  # it fixes all that the ledger held at the end; runs of older formats have none
    scores: Scores | None = None  # older runs have none
    diverged: bool = False  # the training ended in a model that is worse than any guess

    @property
    def main(self) -> float:
        """The figure by which runs are compared: accuracy, or the root of the mean squared error; NaN without one."""
        value = self.accuracy if self.scores is None else self.scores.main
        return math.nan if value is None else value

    @property
    def quality(self) -> str:
        """What is said of the model first."""
        quality = main_text(None, self.accuracy) if self.scores is None else scores_text(self.scores)
        end = f"loss {self.loss:.4f} after {self.rounds} rounds in {self.seconds:.1f} s"
        return f"{self.method} on {self.data}: {quality}, {end}"

    def __str__(self) -> str:
        return "\n".join([*wrapped(self.quality), *wrapped(headline(self.guarantees)), f"run: {self.run}"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For notebooks: the two sentences, the table of what was spent, and accuracy over rounds."""
        from fedveil.runs.notebook_view import result_html

        return result_html(self)

    def of(self, unit: Unit | str, view: View | str) -> Guarantee:
        """What was spent in one cell."""
        return next(cell for cell in self.guarantees if (cell.unit, cell.view) == (unit, view))

    def to_dict(self) -> dict[str, Any]:
        table = {field.name: getattr(self, field.name) for field in fields(self)}
        table |= {"scores": None if self.scores is None else self.scores.to_dict()}
        table |= {"site_guarantees": None if self.site_guarantees is None else self.site_guarantees.to_dict()}
        return table | {"run": str(self.run), "guarantees": [cell.to_dict() for cell in self.guarantees]}

    @staticmethod
    def from_dict(table: Mapping[str, Any], run: Path, method: Method) -> Result:
        """What `to_dict` made of a run of a method; KeyError, TypeError or ValueError for anything else."""
        cells = executed_cells((Guarantee.from_dict(cell) for cell in table["guarantees"]), method)
        known = {**table, "run": run, "guarantees": cells}
        if table.get("scores") is not None:
            known["scores"] = Scores.from_dict(table["scores"])
        if table.get("site_guarantees") is not None:
            known["site_guarantees"] = SiteGuarantees.from_dict(table["site_guarantees"])
        known["diverged"] = bool(table.get("diverged", has_diverged(table["loss"])))
        result = Result(**known)
        for name in NUMBERS_OF_A_RESULT:
            value = getattr(result, name)
            if isinstance(value, bool) or not isinstance(value, int | float | None):
                raise TypeError(f"{name} is not a number: {value!r}")
        return result
