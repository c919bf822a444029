"""Values and guarantees of every cell, from the runs that are there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from fedveil.accounting.guarantees import plain_number
from fedveil.data.dataset import Dataset
from fedveil.experiment.files import RunFiles
from fedveil.experiment.prepare import Prepared
from fedveil.experiment.privacy import claimed, promised
from fedveil.experiment.reproduce.declare import Cell, Place, Setting, Training
from fedveil.experiment.reproduce.papers import Value
from fedveil.experiment.reproduce.plan import EpsilonOf, Plan, run_name, settle
from fedveil.experiment.run import resume
from fedveil.experiment.series import Done, Follower, prepared_with, round_events
from fedveil.experiment.spec import resolve

NOT_RUN = "not run"


@dataclass(frozen=True)
class Bench:
    """Where the runs are, and what reading them needs."""

    directory: Path
    loaded: dict[str, Dataset]
    epsilon_of: EpsilonOf
    follower: Follower
    workers: int | None
    train: bool

    def run_path(self, name: str) -> Path:
        return self.directory / "runs" / name

    def runs(self, work: Training, seeds: Sequence[int]) -> list[Done]:
        """Those of its runs that are finished."""
        name = run_name(settle(work, self.epsilon_of))
        paths = [self.run_path(f"{name}-seed{seed}") for seed in seeds]
        return [
            Done(path.name, resume(path), tuple(round_events(path))) for path in paths if RunFiles(path).result.exists()
        ]

    def prepared_run(self, done: Done) -> Prepared:
        """By the run's own spec, whose noise is solved already where it was calibrated."""
        return prepared_with(resolve(RunFiles(self.run_path(done.name)).spec), None, self.loaded)

    def prepared_setting(self, work: Setting) -> Prepared:
        return prepared_with(settle(work, self.epsilon_of), None, self.loaded)


def measure(bench: Bench, plan: Plan, asked: set[tuple[str, str]], failed: Sequence[str]) -> list[dict[str, Any]]:
    """One row for every cell of the plan, ready for JSON; cells of one training are read together."""
    found: dict[int, dict[str, Any]] = {}
    groups: dict[str, list[tuple[int, Cell]]] = {}
    for index, cell in enumerate(plan.cells):
        if isinstance(cell.work, Training):
            groups.setdefault(run_name(settle(cell.work, bench.epsilon_of)), []).append((index, cell))
        else:
            found[index] = _row(plan, cell, *_untrained(bench, cell, (cell.row, cell.column) in asked))
    for name, members in groups.items():
        work = members[0][1].work
        assert isinstance(work, Training)
        dones = bench.runs(work, plan.seeds)
        why = next((words for words in failed if words.startswith(f"{name}-seed")), "")
        reader = _Reader(bench, dones)
        for index, cell in members:
            values = [cell.read(done, reader.prepared) for done in dones]
            row = _row(plan, cell, values, reader.epsilons(cell.place))
            found[index] = row | ({"words": f"failed: {why}"} if why and not values else {})
    return [found[index] for index in range(len(plan.cells))]


class _Reader:
    """The guarantees of one training's runs, computed once however many cells ask."""

    def __init__(self, bench: Bench, dones: Sequence[Done]) -> None:
        self._dones = dones
        if dones:
            self.prepared = bench.prepared_run(dones[0])
        self._told: dict[Place, dict[str, Any]] = {}
        self._promise: Any = None

    def epsilons(self, place: Place | None) -> dict[str, Any]:
        if place is None or not self._dones:
            return {}
        if place not in self._told:
            delta = self.prepared.spec.privacy.delta
            self._promise = self._promise or promised(self.prepared, delta=delta)
            claims = [c.epsilon for c in claimed(self.prepared, delta) if (c.unit, c.view) == place]
            self._told[place] = {
                "place": f"{place[0]} × {place[1]}",
                "delta": delta,
                "claimed": plain_number(claims[0]) if claims else None,
                "verified": plain_number(max(_spent(done, place) for done in self._dones)),
                "promised": plain_number(self._promise.of(*place).epsilon),
            }
        return self._told[place]


def _spent(done: Done, place: Place) -> float:
    assert done.result is not None
    (found,) = [
        entry for entry in done.result.guarantees if (entry["unit"], entry["view"]) == (str(place[0]), str(place[1]))
    ]
    return math.inf if found["epsilon"] == "inf" else float(found["epsilon"])


def _untrained(bench: Bench, cell: Cell, asked: bool) -> tuple[list[Value], dict[str, Any]]:
    if not asked:
        return [], {}
    assert isinstance(cell.work, Setting)
    return [cell.read(bench.prepared_setting(cell.work))], {}


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
        "words": "; ".join(words) if words else "" if values else NOT_RUN,
        "runs": len(values),
        "seeds": len(plan.seeds) if isinstance(cell.work, Training) else 1,
        "added": cell.added,
        "digits": cell.digits,
        "place": None,
        "delta": None,
        "claimed": None,
        "verified": None,
        "promised": None,
        **epsilons,
    }
