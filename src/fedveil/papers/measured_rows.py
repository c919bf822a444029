"""Values and guarantees of every cell, from the runs that are there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev
from typing import Any

from fedveil.accounting.claims import claims
from fedveil.accounting.plan import plan as promise_of
from fedveil.accounting.table import Table
from fedveil.core.errors import Diverged
from fedveil.core.guarantee import CaveatKind, plain_number
from fedveil.core.rounding import rounded_up
from fedveil.core.types import TableCell
from fedveil.papers.attack_results import stored_leak
from fedveil.papers.planned_work import Plan, run_name, spec_of
from fedveil.papers.printed_tables import Value
from fedveil.papers.reproduction import Cell, Leak, Setting, Stated, Training
from fedveil.papers.run_store import RunStore
from fedveil.papers.values import DIVERGED
from fedveil.runs.prepare import Prepared
from fedveil.studies.series import Done

NOT_RUN = "not run"


def measure(store: RunStore, plan: Plan, asked: set[tuple[str, str]], lost: Sequence[Done]) -> list[dict[str, Any]]:
    """One row for every cell of the plan, ready for JSON; cells of one training are read together.

    A cell that was not asked for counts as not run if its data set is not on this machine.
    """
    row_of: dict[int, dict[str, Any]] = {}
    groups: dict[str, list[tuple[int, Cell]]] = {}
    for index, cell in enumerate(plan.cells):
        mine = (cell.row, cell.column) in asked
        if isinstance(cell.work, Training):
            if not mine and isinstance(cell.work.budget, Stated) and store.lacks_data(cell.work.budget):
                row_of[index] = _row(plan, cell, [], {})
                continue
            groups.setdefault(run_name(spec_of(cell.work, store.epsilon_of)), []).append((index, cell))
        else:
            row_of[index] = _row(plan, cell, *_untrained(store, cell, mine))
    for name, members in groups.items():
        work = members[0][1].work
        assert isinstance(work, Training)
        dones = store.runs(work, plan.seeds)
        if dones and not any((cell.row, cell.column) in asked for _, cell in members) and store.lacks_data(work):
            dones = []
        names = {f"{name}-seed{seed}" for seed in plan.seeds}
        failed = [_failure(run) for run in lost if run.name in names]
        reader = _Reader(store, dones)
        for index, cell in members:
            values = [cell.read(done, reader.prepared) for done in dones]
            row = _row(plan, cell, values, reader.epsilons(cell.place))
            row_of[index] = row | ({"words": "; ".join(dict.fromkeys(failed))} if failed and not values else {})
            row_of[index] |= {"failed": len(failed), "made": sorted(set(map(store.maker, dones)))}
    return [row_of[index] for index in range(len(plan.cells))]


def _failure(run: Done) -> str:
    """Why a run has no result: that it diverged, or the error itself."""
    return DIVERGED if isinstance(run.failure, Diverged) else f"failed: {run.name}: {run.failure}"


class _Reader:
    """The guarantees of one training's runs, computed once however many cells ask."""

    def __init__(self, store: RunStore, dones: Sequence[Done]) -> None:
        self._dones = dones
        if dones:
            self.prepared = store.prepared_run(dones[0])
        self._epsilons: dict[TableCell, dict[str, Any]] = {}
        self._promise: Table | None = None

    def epsilons(self, place: TableCell | None) -> dict[str, Any]:
        if place is None or not self._dones:
            return {}
        if place not in self._epsilons:
            self._promise = self._promise or promise_of(self.prepared.context)
            numbers = _promise(self.prepared, place, self._promise)
            spent, relation = max(_spent(done, place) for done in self._dones)
            numbers["relation"] = numbers["relation"] or (relation if math.isfinite(spent) else None)
            self._epsilons[place] = numbers | {"verified": plain_number(spent)}
        return self._epsilons[place]


def _spent(done: Done, place: TableCell) -> tuple[float, str]:
    """ε, and the relation that it speaks of."""
    assert done.result is not None
    cell = done.result.of(*place)
    return cell.epsilon, str(cell.relation)


def _untrained(store: RunStore, cell: Cell, asked: bool) -> tuple[list[Value], dict[str, Any]]:
    """A setting is read where it was asked for; an attack where its result is there."""
    if isinstance(cell.work, Leak):
        result = stored_leak(store, cell.work)
        return ([], {}) if result is None else ([cell.read(result)], {})
    if not asked:
        return [], {}
    assert isinstance(cell.work, Setting)
    prepared = store.prepared_setting(cell.work)
    return [cell.read(prepared)], {} if cell.place is None else _promise(prepared, cell.place)


def _promise(prepared: Prepared, place: TableCell, table: Table | None = None) -> dict[str, Any]:
    """What is claimed and what is promised for a setting; the relation where anything is promised at all."""
    context = prepared.context
    claimed = [claim.epsilon for claim in claims(context) if (claim.unit, claim.view) == place]
    promise = (table or promise_of(context)).of(*place)
    epsilon = plain_number(promise.epsilon)
    return {
        "place": promise.name,
        "unit": str(promise.unit),
        "delta": context.delta,
        "claimed": plain_number(claimed[0]) if claimed else None,
        "verified": epsilon,
        "promised": epsilon,
        "relation": str(promise.relation) if promise.finite else None,
        "copies": context.copies,
        "together": None if promise.together is None else rounded_up(promise.together),
        "leaks": promise.caveat(CaveatKind.LEAKED_BOUND) is not None,
        "uncovered": [caveat.text for caveat in promise.caveats if promise.finite and caveat.kind.uncovered],
    }


def _words(values: Sequence[Value], numbers: Sequence[float], texts: Iterable[str], digits: int) -> str:
    """The text of a cell without a number; where some seeds gave a number, those too."""
    text = "; ".join(texts)
    if not text or not numbers:
        return text
    several = ", ".join(f"{value:.{digits}f}" for value in numbers)
    return f"{len(values) - len(numbers)} of {len(values)} seeds: {text}; the others: {several}"


def _row(plan: Plan, cell: Cell, values: Sequence[Value], epsilons: dict[str, Any]) -> dict[str, Any]:
    numbers = [value for value in values if isinstance(value, int | float)]
    texts = dict.fromkeys(value for value in values if isinstance(value, str))
    complete = bool(values) and len(numbers) == len(values)
    printed = plan.declaration.printed.value(cell.row, cell.column)
    return {
        "row": cell.row,
        "column": cell.column,
        "paper": printed,
        "ours": plain_number(fmean(numbers)) if complete else None,
        "deviation": stdev(numbers) if complete and len(numbers) > 1 and all(map(math.isfinite, numbers)) else None,
        "words": _words(values, numbers, texts, cell.digits) if values else NOT_RUN,
        "runs": len(values),
        "failed": 0,
        "made": [],
        "seeds": len(plan.seeds) if isinstance(cell.work, Training) else 1,
        "added": cell.added,
        "calibrated": cell.calibrated,
        "population": cell.population,
        "digits": cell.digits,
        "certified": cell.certified,
        "place": None,
        "unit": None,
        "delta": None,
        "claimed": None,
        "verified": None,
        "promised": None,
        "relation": None,
        "copies": None,
        "together": None,
        "leaks": False,
        "uncovered": [],
        **epsilons,
    }
