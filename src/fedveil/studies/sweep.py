"""A grid of settings times repeated seeds: a table with mean and deviation, and a picture for one or two keys."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from fedveil.config.merge import parse_value
from fedveil.config.spec import Spec
from fedveil.core.atomic import disk_errors
from fedveil.core.errors import ArgumentError
from fedveil.core.guarantee import SEEDED, cell_name
from fedveil.core.types import TableCell
from fedveil.data.dataset import Dataset
from fedveil.report.plots.sweep_grid import draw_sweep
from fedveil.report.terminal.run_tables import sweep_table
from fedveil.runs.argument_checks import check_arguments
from fedveil.runs.outlook import resolve_for
from fedveil.studies.repeated_runs import chosen_cells
from fedveil.studies.series import Follower, check_size, count_seeds
from fedveil.studies.study import Case, Study, study_settings, train_cases, write_tables


@dataclass(frozen=True)
class Axis:
    """A dotted key and the values it takes, in the order in which they were given."""

    key: str
    values: tuple[Any, ...]


def parse_axis(text: str) -> Axis:
    """`key=value,value,…` from the command line; values are read as TOML, or else taken as plain words."""
    key, equals, values = text.partition("=")
    parts = [part.strip() for part in _split(values)]
    if not equals or not all(key.strip().split(".")) or not all(parts):
        raise ArgumentError("over", f"{text}: expected key=value,value,… without empty values")
    return Axis(key.strip(), tuple(map(parse_value, parts)))


def _split(text: str) -> list[str]:
    """At the commas that stand outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def sweep(
    source: str | Path,
    axes: Sequence[Axis],
    overrides: Mapping[str, Any] | None = None,
    *,
    follower: Follower,
    out: str | Path,
    rounds: int | None = None,
    seeds: int = 3,
    workers: int | None = None,
    unit: str | None = None,
    view: str | None = None,
    dataset: Dataset | None = None,
) -> Study:
    """Train every point of the grid with the seeds 1 … `seeds`; with the same `out` it goes on where it was stopped.

    The runs are seeded so that a sweep can be repeated, and are therefore not private; the table says so.
    """
    numbers = {"rounds": rounds, "seeds": seeds, "workers": workers}
    check_arguments(overrides=overrides, dataset=dataset, paths={"out": out}, numbers=numbers)
    settings = study_settings(overrides, rounds)
    _check_axes(axes, settings)
    repeated, cells = count_seeds(seeds), chosen_cells(unit, view)
    check_size(prod(len(axis.values) for axis in axes) * len(repeated), workers)
    keys = [axis.key for axis in axes]
    points = [dict(zip(keys, values, strict=True)) for values in product(*(axis.values for axis in axes))]
    cases = [
        Case(point_name(point), {"point": point}, resolve_for(source, settings | point, dataset)) for point in points
    ]
    directory = Path(out)
    trained, failed = train_cases(
        "sweep",
        cases,
        directory,
        cells=cells,
        seeds=repeated,
        follower=follower,
        workers=workers,
        dataset=dataset,
    )
    picture = directory / "sweep.png" if len(axes) <= 2 else None
    result = Study("points", directory, [case.row for case in trained], [SEEDED.text], failed, picture, tuple(keys))
    write_tables(result, *sweep_table(keys, result.rows))
    _draw(result, cases[0].spec, cells)
    return result


def _check_axes(axes: Sequence[Axis], settings: Mapping[str, Any]) -> None:
    if not axes:
        raise ArgumentError("over", "nothing to sweep; give a key and its values")
    keys = [axis.key for axis in axes]
    for axis in axes:
        if keys.count(axis.key) > 1:
            raise ArgumentError("over", f"{axis.key} is given twice")
        if axis.key in settings:
            raise ArgumentError("over", f"{axis.key} is also set to one value")
        if axis.key == "seed":
            raise ArgumentError("over", "seed can't be swept; seeds = N repeats every point with the seeds 1 … N")
        texts = [json.dumps(value, default=str) for value in axis.values]
        if len(set(texts)) < len(texts):
            raise ArgumentError("over", f"{axis.key}: a value is given twice")


def point_name(point: Mapping[str, Any]) -> str:
    """A file name for a grid point; what a file name can't hold is replaced, and a few letters keep it apart."""
    name = ",".join(f"{key}={_word(value)}" for key, value in point.items())
    safe = re.sub(r"[^\w.=,+-]", "_", name, flags=re.ASCII)[:120]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _draw(sweep: Study, spec: Spec, cells: Sequence[TableCell]) -> None:
    if sweep.picture is None:
        return
    names = [cell_name(*cell) for cell in cells]
    finite = [name for name in names if any(row["epsilon"][name]["promised"] != "inf" for row in sweep.rows)]
    title = f"{spec.base} on {spec.data.name}" if "method" not in sweep.keys else spec.data.name
    with disk_errors(sweep.picture):
        draw_sweep(sweep.picture, f"{title} (seeded: not private)", sweep.keys, sweep.rows, (finite or names)[0])
