"""Several methods on one task: one table, and one picture of accuracy over rounds and over verified ε."""

from __future__ import annotations

import datetime
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedveil.config.spec import Spec, resolve
from fedveil.core.errors import FedveilError
from fedveil.core.words import SEEDED
from fedveil.data.dataset import Dataset
from fedveil.report.plots.comparison import draw_comparison
from fedveil.report.terminal.run_tables import comparison_table, csv_text, deltas_word, explanation, markdown_text
from fedveil.runs.account import promised
from fedveil.runs.files import disk_errors, write_whole
from fedveil.runs.prepare import Prepared
from fedveil.studies.repeated_runs import Cell, cell_name, chosen_cells, first_finite, mean_course, summarise
from fedveil.studies.series import (
    Done,
    Follower,
    changed_keys,
    check_size,
    failures,
    going_on,
    open_series,
    prepared_with,
    run_all,
    with_seeds,
)

MARKS = 16
"""After how many of the rounds ε is computed for the picture."""


@dataclass(frozen=True)
class Comparison:
    """What a comparison found: one row per method, remarks, and which runs failed."""

    out: Path
    rows: list[dict[str, Any]]
    notes: list[str]
    failed: list[str]

    @property
    def picture(self) -> Path:
        return self.out / "compare.png"

    def to_dict(self) -> dict[str, Any]:
        files = {"out": str(self.out), "picture": str(self.picture), "table": str(self.out / "table.csv")}
        return {**files, "methods": self.rows, "notes": self.notes, "failed": self.failed}


def compare(
    sources: Sequence[str | Path],
    overrides: Mapping[str, Any] | None = None,
    *,
    follower: Follower,
    rounds: int | None = None,
    seeds: Sequence[int] | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    unit: str | None = None,
    view: str | None = None,
    dataset: Dataset | None = None,
) -> Comparison:
    """Train every source (a method or a spec file) with the same overrides and seeds, and lay the results side by side.

    With the same `out` it goes on where it was stopped. The drawn ε is that of `unit` × `view`; where neither is given,
    of the first finite one of record × server and client × released, for each method.
    """
    told = dict(overrides or {}) | ({} if rounds is None else {"stop.rounds": rounds})
    told |= {} if dataset is None else {"data.name": dataset.name}
    specs = {name: _resolve(name, source, told) for name, source in _named(sources).items()}
    check_size(len(specs) * (1 if seeds is None else len(seeds)), workers)
    notes = _check_task(specs)
    loaded: dict[str, Dataset] = {}
    for spec in specs.values():
        prepared_with(spec, dataset, loaded)  # refuse before the first run what the last one could not do
    groups = {name: with_seeds(name, spec, seeds) for name, spec in specs.items()}
    planned = [run for group in groups.values() for run in group]
    directory = Path(out) if out is not None else _new_directory()
    open_series(directory, "comparison", planned)
    with going_on(directory, follower):
        runs = {run.name: run for run in run_all(directory, planned, follower, workers=workers, dataset=dataset)}
        cells = chosen_cells(unit, view)
        rows, curves = [], []
        for name, group in groups.items():
            prepared = prepared_with(specs[name], dataset, loaded)
            mine = [runs[run.name] for run in group]
            row = {"method": name, **summarise(prepared, mine, cells)}
            rows.append(row)
            curves.append(_curve(name, prepared, mine, cells, row))
        if any(row["seeded"] for row in rows):
            notes.append(SEEDED)
        found = Comparison(directory, rows, notes, failures(list(runs.values())))
        _write(found, curves, specs)
    return found


def _named(sources: Sequence[str | Path]) -> dict[str, str | Path]:
    if not sources:
        raise FedveilError("nothing to compare: name methods or spec files, or --methods a,b,c")
    names = [Path(source).stem if str(source).endswith(".toml") else Path(source).name for source in sources]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise FedveilError(f"{twice[0]}: named twice; every method or spec file needs a name of its own")
    return dict(zip(names, sources, strict=True))


def _resolve(name: str, source: str | Path, told: Mapping[str, Any]) -> Spec:
    """A setting may suit one method and not another: say which one, and what to do."""
    resolve(source)
    try:
        return resolve(source, told)
    except FedveilError as error:
        raise FedveilError(f"{error} ({name} with --set; for one method's settings write a spec file)") from None


def _check_task(specs: Mapping[str, Spec]) -> list[str]:
    """Refuse different data sets; say what else differs about the task."""
    (first, mine), *others = specs.items()
    for name, other in others:
        if other.data.name != mine.data.name:
            raise FedveilError(
                f"{first} trains on {mine.data.name} and {name} on {other.data.name}; compare methods on one data set"
                " (--set data.name=NAME)"
            )
    notes = []
    for name, other in others:
        tables = [{key: spec.to_dict()[key] for key in ("data", "model")} for spec in (mine, other)]
        different = [words.partition(" (")[0] for words in changed_keys(tables[0], tables[1])]
        if different:
            notes.append(f"not the same task: {name} differs from {first} in {', '.join(different)}")
    return notes


def _curve(name: str, prepared: Prepared, runs: Sequence[Done], cells: Sequence[Cell], row: Mapping[str, Any]) -> Any:
    course = mean_course(runs)
    delta, rounds = prepared.spec.privacy.delta, [int(round) for round in course["rounds"]]
    cell = first_finite(promised(prepared, delta=delta), cells)
    # ε grows about as the square root of the rounds, so squares spread the marks evenly over it.
    shares = [(mark / MARKS) ** 2 for mark in range(1, MARKS + 1)]
    marks = sorted({max(0, round(len(rounds) * share) - 1) for share in shares} | {0}) if rounds else []
    tables = [promised(prepared, delta=delta, rounds=rounds[mark]) for mark in marks] if cell else []
    said = [
        claim["epsilon"] for claim in row["claimed"] if cell and f"{claim['unit']} × {claim['view']}" == cell_name(cell)
    ]
    return {
        "name": name,
        **course,
        "final": row["accuracy"],
        "cell": cell_name(cell) if cell else None,
        "epsilon": [table.of(*cell).epsilon for table in tables] if cell else [],
        "epsilon_accuracy": [course["accuracy"][mark] for mark in marks] if cell else [],
        "claimed": said[0] if said and said[0] != "inf" else None,
    }


def _write(found: Comparison, curves: Sequence[Mapping[str, Any]], specs: Mapping[str, Spec]) -> None:
    headings, lines = comparison_table(found.rows)
    write_whole(found.out / "table.csv", csv_text(found.rows).encode())
    remarks = [*explanation(found.rows), *found.notes, *(f"failed: {words}" for words in found.failed)]
    write_whole(found.out / "table.md", markdown_text(headings, lines, remarks).encode())
    data = next(iter(specs.values())).data
    runs = max(row["runs"] for row in found.rows)
    repeated = f", mean ± deviation of {runs} seeds" if runs > 1 else ""
    seeded = " (seeded: not private)" if SEEDED in found.notes else ""
    with disk_errors(found.picture):
        draw_comparison(
            found.picture, f"{data.name}, {data.clients:,} clients{repeated}{seeded}", curves, deltas_word(found.rows)
        )


def _new_directory() -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{stamp}-compare-{secrets.token_hex(2)}"
