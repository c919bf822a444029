"""Repeated runs of one spec as one row: mean and deviation, the cells of the privacy table, what papers claim."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from fedveil.accounting.guarantees import Guarantee, plain_number
from fedveil.accounting.table import Table
from fedveil.core.types import Unit, View
from fedveil.core.words import LEAKED, ONE_COPY, SCALED
from fedveil.runs.account import claimed, promised
from fedveil.runs.prepare import Prepared
from fedveil.studies.series import Done

Cell = tuple[Unit, View]

SHOWN: tuple[Cell, ...] = ((Unit.RECORD, View.SERVER), (Unit.CLIENT, View.RELEASED))
"""The two cells that most papers speak of: they have a column each, and the first finite one makes the picture."""


def cell_name(cell: Cell) -> str:
    return f"{cell[0]} × {cell[1]}"


def chosen_cells(unit: str | None, view: str | None) -> tuple[Cell, ...]:
    """The cells of which the first finite one is drawn: those shown, or the one that was asked for."""
    if unit is None and view is None:
        return SHOWN
    return ((Unit(unit or Unit.RECORD), View(view or View.SERVER)),)


def first_finite(table: Table, cells: Sequence[Cell]) -> Cell | None:
    return next((cell for cell in cells if table.of(*cell).finite), None)


def summarise(prepared: Prepared, runs: Sequence[Done], cells: Sequence[Cell]) -> dict[str, Any]:
    """One row, ready for JSON: numbers over the finished runs, `None` where none is finished.

    ε is stated twice: `promised` is what the spec guarantees however the runs turn out, `spent` the largest that a run
    spent. Both hold for each single run, not for all repetitions together.
    """
    delta = prepared.spec.privacy.delta
    promise = promised(prepared, delta=delta)
    results = [run.result for run in runs if run.result is not None]
    accuracies = [result.accuracy for result in results]
    claims = [claim.to_dict() for claim in claimed(prepared, delta)]
    told = {cell: promise.of(*cell) for cell in dict.fromkeys([*SHOWN, *cells])}
    return {
        "base": prepared.spec.base,
        "runs": len(results),
        "failed": len(runs) - len(results),
        "seeded": prepared.spec.seed is not None or any(result.seeded for result in results),
        "accuracy": fmean(accuracies) if results else None,
        "deviation": stdev(accuracies) if len(results) > 1 else None,
        "best": fmean(map(best_accuracy, (run for run in runs if run.result))) if results else None,
        "loss": fmean(result.loss for result in results) if results else None,
        "rounds": max((result.rounds for result in results), default=None),
        "seconds": fmean(result.seconds for result in results) if results else None,
        "rejected": sum(result.rejected for result in results),
        "rejected_updates": sum(event.get("rejected_updates", 0) for run in runs for event in run.rounds),
        "delta": delta,
        "epsilon": {
            cell_name(cell): {
                "promised": plain_number(guarantee.epsilon),
                "spent": plain_number(max(_spent(result.guarantees, cell) for result in results)) if results else None,
                "relation": str(guarantee.relation) if guarantee.finite else None,
            }
            for cell, guarantee in told.items()
        },
        "caveats": list(dict.fromkeys(words for guarantee in told.values() for words in _caveats(guarantee))),
        "claimed": claims,
    }


def _caveats(guarantee: Guarantee) -> list[str]:
    """What must be said of a number wherever it stands."""
    if not guarantee.finite:
        return []
    where = f"ε {cell_name((guarantee.unit, guarantee.view))} "
    return [
        where + caveat if caveat.startswith(ONE_COPY) else caveat
        for caveat in guarantee.caveats
        if caveat.startswith((LEAKED, ONE_COPY, SCALED))
    ]


def _spent(guarantees: Sequence[Mapping[str, Any]], cell: Cell) -> float:
    (found,) = [entry for entry in guarantees if (entry["unit"], entry["view"]) == (str(cell[0]), str(cell[1]))]
    return math.inf if found["epsilon"] == "inf" else float(found["epsilon"])


def best_accuracy(run: Done) -> float:
    """The largest accuracy after any evaluated round, the last included."""
    assert run.result is not None
    return max([run.result.accuracy, *(value for _, value in accuracy_course(run.rounds))])


def accuracy_course(rounds: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """(rounds done, accuracy) wherever the model was evaluated."""
    return [(event["round"] + 1, event["accuracy"]) for event in rounds if event.get("accuracy") is not None]


def mean_course(runs: Sequence[Done]) -> dict[str, list[float]]:
    """Accuracy over rounds: mean and deviation over the runs, at the rounds that all of them evaluated."""
    courses = [dict(accuracy_course(run.rounds)) for run in runs if run.result is not None]
    shared = sorted(set.intersection(*map(set, courses))) if courses else []
    values = [[course[round] for course in courses] for round in shared]
    return {
        "rounds": [float(round) for round in shared],
        "accuracy": [fmean(several) for several in values],
        "deviation": [stdev(several) if len(several) > 1 else 0.0 for several in values],
    }
