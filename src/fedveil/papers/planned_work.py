"""From cells to runs: every training has a name made from its spec, so tables that need the same one share it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from fedveil.config.convert import unstructure
from fedveil.config.data_spec import DataSpec
from fedveil.config.merge import difference, without
from fedveil.config.spec import ModelSpec, Spec, resolve
from fedveil.core.errors import ArgumentError
from fedveil.data.known_sets import encoding_of
from fedveil.method import Method
from fedveil.papers.reproduction import Cell, FigureLine, Leak, Reproduction, Scale, Setting, Stated, Training
from fedveil.studies.series import Planned, with_seeds

EpsilonOf = Callable[[Stated], float]


@dataclass(frozen=True)
class Plan:
    """The cells and lines of a reproduction in one scale, and the spec of every training among them."""

    declaration: Reproduction
    scale: Scale
    cells: tuple[Cell, ...]
    lines: tuple[FigureLine, ...]
    seeds: tuple[int, ...]

    @property
    def trainings(self) -> list[Training]:
        of_cells = [cell.work for cell in self.cells if isinstance(cell.work, Training)]
        return [*of_cells, *(line.work for line in self.lines)]


def make_plan(declaration: Reproduction, scale: Scale, seeds: Sequence[int] | None) -> Plan:
    repeated = tuple(range(1, declaration.seeds[scale] + 1)) if seeds is None else tuple(seeds)
    return Plan(declaration, scale, tuple(declaration.cells(scale)), tuple(declaration.lines(scale)), repeated)


def chosen(plan: Plan, only: Sequence[str]) -> Plan:
    """The part of a plan that `only` names: ROW/COLUMN, ROW, or /COLUMN, with * and ? as in file names."""
    if not only:
        return plan
    cells = tuple(cell for cell in plan.cells if any(_matches(one, cell.row, cell.column) for one in only))
    lines = tuple(line for line in plan.lines if any(_matches(one, line.name, "") for one in only))
    if not cells and not lines:
        rows = dict.fromkeys([*(cell.row for cell in plan.cells), *(line.name for line in plan.lines)])
        columns = dict.fromkeys(cell.column for cell in plan.cells)
        there = f"rows {', '.join(rows)}" + (f"; columns {', '.join(columns)}" if columns else "")
        raise ArgumentError("only", f"{', '.join(only)}: nothing has that name; there are {there}")
    return Plan(plan.declaration, plan.scale, cells, lines, plan.seeds)


def _matches(pattern: str, row: str, column: str) -> bool:
    rows, slash, columns = pattern.casefold().partition("/")
    return fnmatchcase(row.casefold(), rows or "*") and fnmatchcase(column.casefold(), columns if slash else "*")


def spec_of(work: Training | Setting | Leak, epsilon_of: EpsilonOf) -> Spec:
    """The spec of a piece of work, without a seed."""
    settings = dict(work.overrides)
    if isinstance(work, Training) and work.budget is not None:
        # Rounded down, so that the same ε is asked for whatever the accountant's last digits are.
        settings["privacy.epsilon"] = (
            math.floor(epsilon_of(work.budget) * 100) / 100 if isinstance(work.budget, Stated) else work.budget
        )
    return resolve(work.source, settings)


def run_name(spec: Spec) -> str:
    """A name for the runs of a spec: the same for the same settings, whichever table asks for them."""
    return f"{spec.data.name}-{spec.base}-{digest(spec)}"


def digest(spec: Spec, **more: Any) -> str:
    """A few letters that tell trainings apart: by what they set other than by default, and by how features are made."""
    method = unstructure(spec.method)  # with the noise a search begins with
    for place, mechanism in spec.method.mechanisms.items():
        if not mechanism.each_row:  # a key that is younger than runs which are kept
            method[place] = without(method[place], "each_row")
    encoding = encoding_of(spec.data.name)
    changed = difference({**spec.to_dict(), **method, "seed": "none"}, _plain())
    changed |= ({"encoding": encoding} if encoding else {}) | more
    return hashlib.sha256(json.dumps(changed, sort_keys=True, default=str).encode()).hexdigest()[:10]


@cache
def _plain() -> dict[str, Any]:
    return Spec(base="fedavg", data=DataSpec(), model=ModelSpec(), method=Method()).to_dict()


def planned_runs(plan: Plan, epsilon_of: EpsilonOf) -> list[Planned]:
    """Every run once; all trainings with the first seed, then all with the second."""
    specs = {run_name(spec): spec for spec in (spec_of(work, epsilon_of) for work in plan.trainings)}
    return [run for seed in plan.seeds for name, spec in specs.items() for run in with_seeds(name, spec, (seed,))]
