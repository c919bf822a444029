"""Values and guarantees of every cell, from the runs that are there."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev
from typing import Any

from fedveil.accounting.guarantees import Guarantee, plain_number
from fedveil.accounting.table import Table
from fedveil.core.words import LEAKED
from fedveil.papers.attack_results import stored_leak
from fedveil.papers.planned_work import Plan, run_name, settle
from fedveil.papers.printed_tables import Value
from fedveil.papers.reproduction import Cell, Leak, Place, Setting, Stated, Training
from fedveil.papers.run_store import Bench
from fedveil.papers.values import DIVERGED
from fedveil.runs.account import claimed, promised
from fedveil.runs.prepare import Prepared
from fedveil.studies.series import Done

NOT_RUN = "not run"


def measure(bench: Bench, plan: Plan, asked: set[tuple[str, str]], failed: Sequence[str]) -> list[dict[str, Any]]:
    """One row for every cell of the plan, ready for JSON; cells of one training are read together.

    Of what was not asked for, cells whose data is not there are not run.
    """
    found: dict[int, dict[str, Any]] = {}
    groups: dict[str, list[tuple[int, Cell]]] = {}
    for index, cell in enumerate(plan.cells):
        mine = (cell.row, cell.column) in asked
        if isinstance(cell.work, Training):
            if not mine and isinstance(cell.work.budget, Stated) and bench.lacks_data(cell.work.budget):
                found[index] = _row(plan, cell, [], {})
                continue
            groups.setdefault(run_name(settle(cell.work, bench.epsilon_of)), []).append((index, cell))
        else:
            found[index] = _row(plan, cell, *_untrained(bench, cell, mine))
    for name, members in groups.items():
        work = members[0][1].work
        assert isinstance(work, Training)
        dones = bench.runs(work, plan.seeds)
        if dones and not any((cell.row, cell.column) in asked for _, cell in members) and bench.lacks_data(work):
            dones = []
        lost = [_failure(words) for words in failed if words.startswith(f"{name}-seed")]
        reader = _Reader(bench, dones)
        for index, cell in members:
            values = [cell.read(done, reader.prepared) for done in dones]
            row = _row(plan, cell, values, reader.epsilons(cell.place))
            found[index] = row | ({"words": "; ".join(dict.fromkeys(lost))} if lost and not values else {})
            found[index] |= {"failed": len(lost), "made": sorted(set(map(bench.maker, dones)))}
    return [found[index] for index in range(len(plan.cells))]


def _failure(words: str) -> str:
    """A run that diverged says so; any other failure is told as it is."""
    return DIVERGED if "diverged" in words else f"failed: {words}"


class _Reader:
    """The guarantees of one training's runs, computed once however many cells ask."""

    def __init__(self, bench: Bench, dones: Sequence[Done]) -> None:
        self._dones = dones
        if dones:
            self.prepared = bench.prepared_run(dones[0])
        self._told: dict[Place, dict[str, Any]] = {}
        self._promise: Table | None = None

    def epsilons(self, place: Place | None) -> dict[str, Any]:
        if place is None or not self._dones:
            return {}
        if place not in self._told:
            self._promise = self._promise or promised(self.prepared, delta=self.prepared.spec.privacy.delta)
            told = _promise(self.prepared, place, self._promise)
            spent, relation = max(_spent(done, place) for done in self._dones)
            told["relation"] = told["relation"] or (relation if math.isfinite(spent) else None)
            self._told[place] = told | {"verified": plain_number(spent)}
        return self._told[place]


def _spent(done: Done, place: Place) -> tuple[float, str]:
    """ε, and the relation that it speaks of."""
    assert done.result is not None
    (found,) = [
        entry for entry in done.result.guarantees if (entry["unit"], entry["view"]) == (str(place[0]), str(place[1]))
    ]
    return math.inf if found["epsilon"] == "inf" else float(found["epsilon"]), str(found["relation"])


def _untrained(bench: Bench, cell: Cell, asked: bool) -> tuple[list[Value], dict[str, Any]]:
    """A setting is read where it was asked for; an attack where its result is there."""
    if isinstance(cell.work, Leak):
        found = stored_leak(bench, cell.work)
        return ([], {}) if found is None else ([cell.read(found)], {})
    if not asked:
        return [], {}
    assert isinstance(cell.work, Setting)
    prepared = bench.prepared_setting(cell.work)
    return [cell.read(prepared)], {} if cell.place is None else _promise(prepared, cell.place)


def _promise(prepared: Prepared, place: Place, table: Table | None = None) -> dict[str, Any]:
    """What is claimed and what is promised for a setting; the relation where anything is promised at all."""
    delta = prepared.spec.privacy.delta
    claims = [claim.epsilon for claim in claimed(prepared, delta) if (claim.unit, claim.view) == place]
    promise = (table or promised(prepared, delta=delta)).of(*place)
    epsilon = plain_number(promise.epsilon)
    return {
        "place": f"{place[0]} × {place[1]}",
        "delta": delta,
        "claimed": plain_number(claims[0]) if claims else None,
        "verified": epsilon,
        "promised": epsilon,
        "relation": str(promise.relation) if promise.finite else None,
        "copies": prepared.copies,
        "together": _together(promise),
        "leaks": any(caveat.startswith(LEAKED) for caveat in promise.caveats),
    }


def _together(promise: Guarantee) -> str | None:
    """ε of all copies of a record, in the accountant's own digits; None where it does not say."""
    found = (re.search(r"all copies together ε = ([^\s,;]+)", caveat) for caveat in promise.caveats)
    return next((match[1] for match in found if match), None)


def _words(values: Sequence[Value], numbers: Sequence[float], words: Iterable[str], digits: int) -> str:
    """What is said of a cell in words; where some seeds gave a number, those too."""
    told = "; ".join(words)
    if not told or not numbers:
        return told
    several = ", ".join(f"{value:.{digits}f}" for value in numbers)
    return f"{len(values) - len(numbers)} of {len(values)} seeds: {told}; the others: {several}"


def _row(plan: Plan, cell: Cell, values: Sequence[Value], epsilons: dict[str, Any]) -> dict[str, Any]:
    numbers = [value for value in values if isinstance(value, int | float)]
    words = dict.fromkeys(value for value in values if isinstance(value, str))
    complete = bool(values) and len(numbers) == len(values)
    printed = plan.declaration.printed.value(cell.row, cell.column)
    return {
        "row": cell.row,
        "column": cell.column,
        "paper": printed,
        "ours": plain_number(fmean(numbers)) if complete else None,
        "deviation": stdev(numbers) if complete and len(numbers) > 1 and all(map(math.isfinite, numbers)) else None,
        "words": _words(values, numbers, words, cell.digits) if values else NOT_RUN,
        "runs": len(values),
        "failed": 0,
        "made": [],
        "seeds": len(plan.seeds) if isinstance(cell.work, Training) else 1,
        "added": cell.added,
        "digits": cell.digits,
        "certified": cell.certified,
        "place": None,
        "delta": None,
        "claimed": None,
        "verified": None,
        "promised": None,
        "relation": None,
        "copies": None,
        "together": None,
        "leaks": False,
        **epsilons,
    }
