"""What comparisons and sweeps share: several specs, each trained with some seeds, one table and one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedveil.config.data_spec import DataSpec
from fedveil.config.spec import Spec
from fedveil.core.atomic import write_whole
from fedveil.core.types import TableCell
from fedveil.data.dataset import Dataset
from fedveil.report.terminal.run_tables import csv_text, explanation, markdown_text
from fedveil.runs.prepare import Prepared
from fedveil.studies.repeated_runs import summarise_runs
from fedveil.studies.series import (
    Done,
    Follower,
    check_size,
    failures,
    going_on,
    loaded_for,
    open_series,
    prepared_with,
    run_all,
    with_seeds,
)


@dataclass(frozen=True)
class Case:
    """A spec of a study. `label` begins its row of the table, `name` those of its runs' directories."""

    name: str
    label: Mapping[str, Any]
    spec: Spec


@dataclass(frozen=True)
class TrainedCase:
    """A case with its runs, finished or failed, and their row."""

    case: Case
    prepared: Prepared
    runs: list[Done]
    row: dict[str, Any]


@dataclass(frozen=True)
class Study:
    """What a study leaves: one row per case, remarks, which runs failed, and the picture if there is one.

    `cases` is what the rows are called where they are printed as JSON. `keys` are those that a sweep varies.
    """

    cases: str
    out: Path
    rows: list[dict[str, Any]]
    notes: list[str]
    failed: list[str]
    picture: Path | None
    keys: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            "picture": str(self.picture) if self.picture else None,
            "table": str(self.out / "table.csv"),
            **({"keys": list(self.keys)} if self.keys else {}),
            self.cases: self.rows,
            "notes": self.notes,
            "failed": self.failed,
        }


def study_settings(overrides: Mapping[str, Any] | None, rounds: int | None) -> dict[str, Any]:
    """The overrides that all cases share."""
    return dict(overrides or {}) | ({} if rounds is None else {"stop.rounds": rounds})


def train_cases(
    kind: str,
    cases: Sequence[Case],
    directory: Path,
    *,
    cells: Sequence[TableCell],
    seeds: Sequence[int] | None,
    follower: Follower,
    workers: int | None,
    dataset: Dataset | None,
) -> tuple[list[TrainedCase], list[str]]:
    """Every case with every seed, and which runs failed. With the same `directory` it goes on where it was stopped."""
    check_size(len(cases) * (1 if seeds is None else len(seeds)), workers)
    loaded: dict[str, Dataset] = {}

    def records(data: DataSpec) -> Dataset:
        return loaded_for(data, loaded) if dataset is None else dataset

    for case in cases:
        prepared_with(case.spec, dataset, loaded)  # refuse before the first run what the last one could not do
    groups = [with_seeds(case.name, case.spec, seeds) for case in cases]
    planned = [run for group in groups for run in group]
    open_series(directory, kind, planned)
    with going_on(directory, follower):
        done = run_all(directory, planned, follower, records=records, workers=workers)
        runs = {run.name: run for run in done}
        trained = []
        for case, group in zip(cases, groups, strict=True):
            prepared, mine = prepared_with(case.spec, dataset, loaded), [runs[run.name] for run in group]
            row = {**case.label, **summarise_runs(prepared, mine, cells)}
            trained.append(TrainedCase(case, prepared, mine, row))
    return trained, failures(list(runs.values()))


def write_tables(study: Study, headings: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """table.csv with every number, table.md for people."""
    write_whole(study.out / "table.csv", csv_text(study.rows).encode())
    remarks = [*explanation(study.rows), *study.notes, *(f"failed: {run}" for run in study.failed)]
    write_whole(study.out / "table.md", markdown_text(headings, lines, remarks).encode())
