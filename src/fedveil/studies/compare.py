"""Several methods on one task: one table, and one picture of the task's main figure over rounds and over verified ε."""

from __future__ import annotations

import datetime
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedveil.accounting.plan import plan
from fedveil.config.spec import Spec
from fedveil.core.atomic import disk_errors
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.guarantee import SEEDED, cell_name
from fedveil.core.progress import told
from fedveil.core.scores import main_figure
from fedveil.core.types import TableCell
from fedveil.data.dataset import Dataset
from fedveil.report.model.number_texts import deltas_text
from fedveil.report.model.score_texts import figure_heading
from fedveil.report.plots.comparison import draw_comparison
from fedveil.report.terminal.run_tables import comparison_table
from fedveil.runs.argument_checks import check_arguments
from fedveil.runs.outlook import resolve_for
from fedveil.studies.repeated_runs import chosen_cells, first_finite, mean_over_runs
from fedveil.studies.series import Follower, differences
from fedveil.studies.study import Case, Study, TrainedCase, study_settings, train_cases, write_tables

EPSILON_MARKS = 16
"""After how many of the rounds ε is computed for the picture."""


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
) -> Study:
    """Train every source (a method or a spec file) with the same overrides and seeds, and lay the results side by side.

    With the same `out` it goes on where it was stopped. The drawn ε is that of `unit` × `view`; where neither is given,
    of the first finite one of record × server and client × released, for each method.
    """
    check_arguments(
        overrides=overrides, dataset=dataset, paths={"out": out}, numbers={"rounds": rounds, "workers": workers}
    )
    settings = study_settings(overrides, rounds)
    specs = {name: _resolve(name, source, settings, dataset) for name, source in _named(sources).items()}
    notes, cells = _check_task(specs), chosen_cells(unit, view)
    trained, failed = train_cases(
        "comparison",
        [Case(name, {"method": name}, spec) for name, spec in specs.items()],
        directory := Path(out) if out is not None else _new_directory(),
        cells=cells,
        seeds=seeds,
        follower=follower,
        workers=workers,
        dataset=dataset,
    )
    rows = [case.row for case in trained]
    seeded = any(row["seeded"] for row in rows)
    notes += [SEEDED.text] if seeded else []
    comparison = Study("methods", directory, rows, notes, failed, directory / "compare.png")
    write_tables(comparison, *comparison_table(rows))
    _draw(comparison, [_curve(case, cells) for case in trained], next(iter(specs.values())), seeded)
    return comparison


def _named(sources: Sequence[str | Path]) -> dict[str, str | Path]:
    if not sources:
        raise ArgumentError("methods", "nothing to compare; name methods or spec files")
    names = [Path(source).stem if str(source).endswith(".toml") else Path(source).name for source in sources]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise FedveilError(f"{twice[0]}: named twice; every method or spec file needs a name of its own")
    return dict(zip(names, sources, strict=True))


def _resolve(name: str, source: str | Path, settings: Mapping[str, Any], dataset: Dataset | None) -> Spec:
    """A setting may suit one method and not another: say which one, and what to do."""
    try:
        return resolve_for(source, settings, dataset)
    except FedveilError as error:
        resolve_for(source, None, dataset)  # what is wrong without them is said by itself
        raise FedveilError(f"{error} ({name} with these settings; for one method's own write a spec file)") from None


def _check_task(specs: Mapping[str, Spec]) -> list[str]:
    """Refuse different data sets; say what else differs about the task."""
    (first, mine), *others = specs.items()
    for name, other in others:
        if other.data.name != mine.data.name:
            raise FedveilError(
                f"{first} trains on {mine.data.name} and {name} on {other.data.name}; compare methods on one data set"
                " (data.name)"
            )
    notes = []
    for name, other in others:
        tables = [{key: spec.to_dict()[key] for key in ("data", "model")} for spec in (mine, other)]
        keys = [one.key for one in differences(tables[0], tables[1])]
        if keys:
            notes.append(f"not the same task: {name} differs from {first} in {', '.join(keys)}")
    return notes


def _curve(trained: TrainedCase, cells: Sequence[TableCell]) -> dict[str, Any]:
    """The line of one method: the task's main figure over rounds, and over ε at a few of them."""
    name, context = trained.case.name, trained.prepared.context
    mean = mean_over_runs(trained.runs, main_figure(trained.prepared.dataset.task))
    rounds = [int(round) for round in mean["rounds"]]
    cell = first_finite(plan(context), cells)
    # ε grows about as the square root of the rounds, so squares spread the marks evenly over it.
    shares = [(mark / EPSILON_MARKS) ** 2 for mark in range(1, EPSILON_MARKS + 1)]
    marks = sorted({max(0, round(len(rounds) * share) - 1) for share in shares} | {0}) if rounds and cell else []
    watched = told(f"{name}: ε over the rounds", marks)
    claimed = [
        claim["epsilon"]
        for claim in trained.row["claimed"]
        if cell is not None and (claim["unit"], claim["view"]) == cell
    ]
    return {
        "name": name,
        **mean,
        "final": trained.row[trained.row["figure"]],
        "cell": None if cell is None else cell_name(*cell),
        "epsilon": [] if cell is None else [plan(context, rounds[mark]).of(*cell).epsilon for mark in watched],
        "epsilon_values": [mean["values"][mark] for mark in marks],
        "claimed": claimed[0] if claimed and claimed[0] != "inf" else None,
    }


def _draw(comparison: Study, curves: Sequence[Mapping[str, Any]], spec: Spec, seeded: bool) -> None:
    assert comparison.picture is not None
    runs = max(row["runs"] for row in comparison.rows)
    repeated = f", mean ± deviation of {runs} seeds" if runs > 1 else ""
    marked = " (seeded: not private)" if seeded else ""
    title = f"{spec.data.name}, {spec.data.clients:,} clients{repeated}{marked}"
    with disk_errors(comparison.picture):
        heading = figure_heading(comparison.rows[0])
        draw_comparison(comparison.picture, title, curves, deltas_text(comparison.rows), heading)


def _new_directory() -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{stamp}-compare-{secrets.token_hex(2)}"
