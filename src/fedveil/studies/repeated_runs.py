"""Repeated runs of one spec as one row: mean and deviation, the cells of the privacy table, what papers claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from fedveil.accounting.claims import claims
from fedveil.accounting.plan import plan
from fedveil.accounting.table import Table
from fedveil.core.guarantee import CaveatKind, Guarantee, cell_name, plain_number
from fedveil.core.scores import ClassScores, Figure, main_figure
from fedveil.core.types import TableCell, Unit, View
from fedveil.report.model.score_texts import unit_of
from fedveil.runs.prepare import Prepared
from fedveil.studies.series import Done

USUAL_CELLS: tuple[TableCell, ...] = ((Unit.RECORD, View.SERVER), (Unit.CLIENT, View.RELEASED))
"""The two cells that most papers speak of: they have a column each, and the first finite one makes the picture."""

SAID_OF_ROWS = tuple(kind for kind in CaveatKind if kind.spoils and kind is not CaveatKind.SEEDED)
"""What must be said of a number wherever it stands; that runs are seeded is said once for all."""


def chosen_cells(unit: str | None, view: str | None) -> tuple[TableCell, ...]:
    """The cells of which the first finite one is drawn: the usual ones, or the one that was asked for."""
    if unit is None and view is None:
        return USUAL_CELLS
    return ((Unit(unit or Unit.RECORD), View(view or View.SERVER)),)


def first_finite(table: Table, cells: Sequence[TableCell]) -> TableCell | None:
    return next((cell for cell in cells if table.of(*cell).finite), None)


def summarise_runs(prepared: Prepared, runs: Sequence[Done], cells: Sequence[TableCell]) -> dict[str, Any]:
    """One row, ready for JSON: numbers over the finished runs, `None` where none is finished.

    ε is stated twice: `promised` is what the spec guarantees however the runs turn out, `spent` the largest that a run
    spent. Both hold for each single run, not for all repetitions together. `void` says that no ε of the row can be
    relied on as it stands.
    """
    context = prepared.context
    promise = plan(context)
    results = [run.result for run in runs if run.result is not None]
    figure = main_figure(prepared.dataset.task)
    values = [result.main for result in results]
    scores = [result.scores.overall for result in results if result.scores is not None]
    shown = {cell: promise.of(*cell) for cell in dict.fromkeys([*USUAL_CELLS, *cells])}
    return {
        "base": prepared.spec.base,
        "runs": len(results),
        "failed": len(runs) - len(results),
        "seeded": prepared.spec.seed is not None or any(result.seeded for result in results),
        "figure": figure.key,
        "unit": unit_of(prepared.dataset.task),
        figure.key: fmean(values) if results else None,
        "deviation": stdev(values) if len(results) > 1 else None,
        "best": fmean(_best(run, figure) for run in runs if run.result) if results else None,
        "majority": next((one.majority for one in scores if isinstance(one, ClassScores)), None),
        "loss": fmean(result.loss for result in results) if results else None,
        "rounds": max((result.rounds for result in results), default=None),
        "seconds": fmean(result.seconds for result in results) if results else None,
        "rejected": sum(result.rejected for result in results),
        "rejected_updates": sum(event.get("rejected_updates", 0) for run in runs for event in run.rounds),
        "delta": context.delta,
        "epsilon": {
            cell_name(*cell): {
                "promised": plain_number(guarantee.epsilon),
                "spent": plain_number(max(result.of(*cell).epsilon for result in results)) if results else None,
                "relation": str(guarantee.relation) if guarantee.finite else None,
            }
            for cell, guarantee in shown.items()
        },
        "void": any(cell.finite and _voided(cell) for cell in shown.values()),
        "caveats": list(dict.fromkeys(text for cell in shown.values() for text in _caveats(cell))),
        "claimed": [claim.to_dict() for claim in claims(context)],
    }


def _voided(guarantee: Guarantee) -> bool:
    return any(caveat.kind.voids and caveat.kind is not CaveatKind.SEEDED for caveat in guarantee.caveats)


def _caveats(guarantee: Guarantee) -> list[str]:
    if not guarantee.finite:
        return []
    return [
        f"ε {guarantee.name} {caveat.text}" if caveat.kind is CaveatKind.ONE_COPY else caveat.text
        for caveat in guarantee.caveats
        if caveat.kind in SAID_OF_ROWS
    ]


def _best(run: Done, figure: Figure) -> float:
    """The best value after any evaluated round, the last included."""
    assert run.result is not None
    choose = max if figure.larger_is_better else min
    return choose([run.result.main, *(value for _, value in _over_rounds(run.rounds, figure))])


def _over_rounds(rounds: Sequence[Mapping[str, Any]], figure: Figure) -> list[tuple[int, float]]:
    """(rounds done, value) wherever the model was evaluated."""
    return [(event["round"] + 1, event[figure.key]) for event in rounds if event.get(figure.key) is not None]


def mean_over_runs(runs: Sequence[Done], figure: Figure) -> dict[str, list[float]]:
    """A figure over rounds: mean and deviation over the runs, at the rounds that all of them evaluated."""
    curves = [dict(_over_rounds(run.rounds, figure)) for run in runs if run.result is not None]
    shared = sorted(set.intersection(*map(set, curves))) if curves else []
    values = [[curve[round] for curve in curves] for round in shared]
    return {
        "rounds": [float(round) for round in shared],
        "values": [fmean(each) for each in values],
        "deviation": [stdev(each) if len(each) > 1 else 0.0 for each in values],
    }
