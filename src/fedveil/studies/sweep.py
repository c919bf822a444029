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
from fedveil.config.spec import Spec, resolve
from fedveil.core.errors import FedveilError
from fedveil.core.words import SEEDED
from fedveil.data.dataset import Dataset
from fedveil.report.plots.comparison import draw_sweep
from fedveil.report.terminal.run_tables import csv_text, explanation, markdown_text, sweep_table
from fedveil.runs.files import disk_errors, write_whole
from fedveil.studies.repeated_runs import cell_name, chosen_cells, summarise
from fedveil.studies.series import (
    Follower,
    check_size,
    count_seeds,
    failures,
    going_on,
    open_series,
    prepared_with,
    run_all,
    with_seeds,
)


@dataclass(frozen=True)
class Axis:
    """A dotted key and the values it takes, in the order in which they were given."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Sweep:
    """What a sweep found: one row per grid point, remarks, which runs failed, and the picture if there is one."""

    out: Path
    keys: list[str]
    rows: list[dict[str, Any]]
    notes: list[str]
    failed: list[str]
    picture: Path | None

    def to_dict(self) -> dict[str, Any]:
        files = {"out": str(self.out), "picture": str(self.picture) if self.picture else None}
        files["table"] = str(self.out / "table.csv")
        return {**files, "keys": self.keys, "points": self.rows, "notes": self.notes, "failed": self.failed}


def parse_axis(text: str) -> Axis:
    """`key=value,value,…` from the command line; values are read as TOML, or else taken as plain words."""
    key, equals, values = text.partition("=")
    parts = [part.strip() for part in _split(values)]
    if not equals or not all(key.strip().split(".")) or not all(parts):
        raise FedveilError(f"--over {text}: expected key=value,value,… without empty values")
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
) -> Sweep:
    """Train every point of the grid with the seeds 1 … `seeds`; with the same `out` it goes on where it was stopped.

    The runs are seeded so that a sweep can be repeated, and are therefore not private; the table says so.
    """
    told = dict(overrides or {}) | ({} if rounds is None else {"stop.rounds": rounds})
    told |= {} if dataset is None else {"data.name": dataset.name}
    _check_axes(axes, told)
    repeated = count_seeds(seeds)
    check_size(prod(len(axis.values) for axis in axes) * len(repeated), workers)
    points = [
        dict(zip((axis.key for axis in axes), values, strict=True)) for values in product(*(a.values for a in axes))
    ]
    specs = [resolve(source, told | point) for point in points]
    loaded: dict[str, Dataset] = {}
    for spec in specs:
        prepared_with(spec, dataset, loaded)  # refuse before the first run what the last one could not do
    groups = [with_seeds(point_name(point), spec, repeated) for point, spec in zip(points, specs, strict=True)]
    directory, planned = Path(out), [run for group in groups for run in group]
    open_series(directory, "sweep", planned)
    with going_on(directory, follower):
        runs = {run.name: run for run in run_all(directory, planned, follower, workers=workers, dataset=dataset)}
        cells, rows = chosen_cells(unit, view), []
        for point, spec, group in zip(points, specs, groups, strict=True):
            prepared = prepared_with(spec, dataset, loaded)
            row = summarise(prepared, [runs[run.name] for run in group], cells)
            rows.append({"point": point, **row})
        finite = [cell for cell in cells if any(row["epsilon"][cell_name(cell)]["promised"] != "inf" for row in rows)]
        failed = failures(list(runs.values()))
        return _write(directory, axes, rows, cell_name((finite or list(cells))[0]), failed, specs[0])


def _check_axes(axes: Sequence[Axis], told: Mapping[str, Any]) -> None:
    if not axes:
        raise FedveilError("nothing to sweep: say --over key=value,value,…")
    keys = [axis.key for axis in axes]
    for axis in axes:
        if keys.count(axis.key) > 1:
            raise FedveilError(f"--over {axis.key}: given twice")
        if axis.key in told:
            raise FedveilError(f"--over {axis.key}: is also set to one value")
        if axis.key == "seed":
            raise FedveilError("--over seed: say --seeds N, which repeats every point with the seeds 1 … N")
        words = [json.dumps(value, default=str) for value in axis.values]
        if len(set(words)) < len(words):
            raise FedveilError(f"--over {axis.key}: a value is given twice")


def point_name(point: Mapping[str, Any]) -> str:
    """A file name for a grid point; what a file name can't hold is replaced, and a few letters keep it apart."""
    words = ",".join(f"{key}={_word(value)}" for key, value in point.items())
    safe = re.sub(r"[^\w.=,+-]", "_", words, flags=re.ASCII)[:120]
    return safe if safe == words else f"{safe}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _write(
    directory: Path, axes: Sequence[Axis], rows: list[dict[str, Any]], cell: str, failed: list[str], spec: Spec
) -> Sweep:
    notes, keys = [SEEDED], [axis.key for axis in axes]
    headings, lines = sweep_table(keys, rows)
    picture = directory / "sweep.png" if len(axes) <= 2 else None
    write_whole(directory / "table.csv", csv_text(rows).encode())
    remarks = [*explanation(rows), *notes, *(f"failed: {words}" for words in failed)]
    write_whole(directory / "table.md", markdown_text(headings, lines, remarks).encode())
    if picture is not None:
        title = f"{spec.base} on {spec.data.name}" if "method" not in keys else spec.data.name
        with disk_errors(picture):
            draw_sweep(picture, f"{title} (seeded: not private)", keys, rows, cell)
    return Sweep(directory, keys, rows, notes, failed, picture)
