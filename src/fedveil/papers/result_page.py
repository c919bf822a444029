"""What a reproduction leaves: table.csv, picture.png, and a page that says how it was made."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from fedveil.core.atomic import disk_errors, write_whole
from fedveil.core.guarantee import SEEDED
from fedveil.papers.attack_results import leak_path, stored_leak
from fedveil.papers.planned_work import Plan
from fedveil.papers.reproduction import ACCURACY, FigureLine, Leak, Scene, Shown
from fedveil.papers.run_store import RunStore
from fedveil.report.model.reproduction_notes import copies_notes, left_out_notes, shown_rows
from fedveil.report.model.reproduction_tables import guarantee_table, matrix, shortfalls
from fedveil.report.plots.reproduction_figures import draw_quantities, draw_table
from fedveil.report.terminal.run_tables import flat_csv, markdown_text
from fedveil.runs.manifest import maker, maker_line
from fedveil.studies.series import Done

SCALE_TITLES = {"small": "on a small scale", "paper": "at the paper's scale"}

HIDDEN = ("digits", "certified", "unit", "calibrated", "population", "uncovered")
"""What the table's writer needs and its reader does not."""


Ran = tuple[FigureLine, Sequence[Done]]
"""A line, and those of its runs that are finished."""


@dataclass(frozen=True)
class Request:
    """What was asked for: the patterns of `only`, the number of `seeds`, and the cells (row, column) that they name."""

    only: tuple[str, ...] = ()
    seeds: int | None = None
    named: frozenset[tuple[str, str]] = frozenset()


def write_all(
    out: Path, store: RunStore, plan: Plan, rows: list[dict[str, Any]], request: Request, page: Path | None
) -> list[str]:
    """Write the files; returns the remarks that belong below the table."""
    with disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    notes = remarks(plan, rows, request)
    public = [{key: value for key, value in row.items() if key not in HIDDEN} for row in rows]
    write_whole(out / "table.csv", flat_csv([row | {"made": "; ".join(row["made"])} for row in public]).encode())
    picture = out / "picture.png"
    lines = [(line, store.runs(line.work, plan.seeds)) for line in plan.lines]
    shown = shown_rows(rows, request.named)
    drawn = _draw(picture, store, plan, shown, lines)
    page_of = partial(page_text, plan, rows, request, notes, _makers(store, shown, lines))
    write_whole(out / "table.md", page_of(picture.name if drawn else None).encode())
    if page is not None:
        beside = page.with_suffix(".png")
        with disk_errors(page):
            page.parent.mkdir(parents=True, exist_ok=True)
            if drawn:
                shutil.copyfile(picture, beside)
        write_whole(page, page_of(beside.name if drawn else None).encode())
    return notes


def _makers(store: RunStore, rows: Sequence[Mapping[str, Any]], lines: Sequence[Ran]) -> list[str]:
    """The machines that made what is shown; what leaves no run behind is taken to be made on this one."""
    makers = {maker for row in rows for maker in row["made"]}
    makers |= {store.maker(done) for _, dones in lines for done in dones}
    if not makers or any(row["runs"] and not row["made"] for row in rows):
        makers.add(maker_line(maker()))
    return sorted(makers)


def _draw(picture: Path, store: RunStore, plan: Plan, rows: Sequence[Mapping[str, Any]], lines: Sequence[Ran]) -> bool:
    declaration = plan.declaration
    title = f"{declaration.title} ({SCALE_TITLES[plan.scale]})"
    with disk_errors(picture):
        if declaration.draw is not None:
            shown = [
                Shown(cell.row, cell.column, result, leak_path(store, cell.work).with_suffix(".png"))
                for cell in plan.cells
                if isinstance(cell.work, Leak) and (result := stored_leak(store, cell.work)) is not None
            ]
            declaration.draw(Scene(picture, title, plan.scale, lines, shown, rows, store.prepared_setting))
            return picture.exists()
        if any(dones for _, dones in lines):
            draw_quantities(
                picture, title, [points for line, dones in lines if dones for points in line_points(line, dones)]
            )
            return True
        drawn = [row for row in rows if fnmatchcase(row["row"], declaration.drawn)]
        if not any(isinstance(row["ours"], int | float) for row in drawn):
            return False
        logarithmic = declaration.value != ACCURACY
        draw_table(picture, title, declaration.value, drawn, ordered=declaration.ordered, logarithmic=logarithmic)
    return True


def line_points(line: FigureLine, dones: Sequence[Done]) -> list[dict[str, Any]]:
    """The line of every panel: mean and deviation over the runs, at the rounds that all of them have."""
    points = []
    for panel, read in line.panels.items():
        curves = [
            {int(event["round"]) + 1: value for event in done.rounds if (value := read(event)) is not None}
            for done in dones
        ]
        shared = sorted(set.intersection(*map(set, curves)))
        several = [[one[round] for one in curves] for round in shared]
        points.append(
            {
                "name": line.name,
                "panel": panel,
                "rounds": shared,
                "values": [fmean(values) for values in several],
                "deviation": [stdev(values) if len(values) > 1 else 0.0 for values in several],
            }
        )
    return points


def remarks(plan: Plan, rows: Sequence[dict[str, Any]], request: Request) -> list[str]:
    declaration, printed = plan.declaration, plan.declaration.printed
    notes = [f"{plan.scale}: {declaration.scales[plan.scale]}"]
    notes += left_out_notes(rows, shown_rows(rows, request.named))
    if request.named and any(row["runs"] for row in rows if (row["row"], row["column"]) not in request.named):
        notes.append("what --only does not name is shown as far as it was run before")
    if any(row["seeds"] > 1 for row in rows):
        notes.append(f"mean ± standard deviation over {len(plan.seeds)} seeds")
    deltas = dict.fromkeys(row["delta"] for row in rows if row["delta"] is not None)
    if deltas:
        listed = ", ".join(f"{delta:g}" for delta in deltas)
        notes.append(
            f"ε at δ = {listed}: claimed by the paper's formula for this very setting, verified by the accountant"
            + (": spent (the most of any client and seed) of promised, for one run alone" if plan.trainings else "")
        )
    if any(_beyond(row) for row in rows):
        notes.append("more was spent than promised where a round was repeated after an interruption")
    notes += copies_notes(rows)
    notes += dict.fromkeys(text for row in rows for text in row["uncovered"])
    if plan.trainings:
        notes.append(SEEDED.text)
    if plan.scale == "paper" and declaration.value == ACCURACY:
        notes += shortfalls([row for row in rows if row["place"] is not None])
    notes += [f"the paper: {printed.note}"] if printed.note else []
    return [*notes, *declaration.remarks]


def _beyond(row: Mapping[str, Any]) -> bool:
    return row["verified"] is not None and float(row["verified"]) > float(row["promised"]) * (1 + 1e-6)


def command(plan: Plan, request: Request) -> str:
    """What makes the page, without what only says where."""
    arguments = ["fedveil", "reproduce", plan.declaration.name, "--scale", plan.scale]
    for pattern in request.only:
        arguments += ["--only", pattern]
    arguments += [] if request.seeds is None else ["--seeds", str(request.seeds)]
    return shlex.join(arguments)


def page_text(
    plan: Plan,
    rows: Sequence[dict[str, Any]],
    request: Request,
    notes: Sequence[str],
    makers: Sequence[str],
    picture: str | None,
) -> str:
    """The page, as generated: nothing on it is typed by hand."""
    declaration, printed = plan.declaration, plan.declaration.printed
    parts = [f"# {declaration.title}", "", f"{printed.paper}, {printed.number}: {printed.caption}."]
    parts += ["", "```sh", command(plan, request), "```", "", f"Made on {'; '.join(makers)}.", ""]
    if rows:
        printed_too = any(row["paper"] is not None for row in rows)
        heading = "Ours, and the paper's in brackets:" if printed_too else "Ours:"
        parts += [heading, "", markdown_text(*matrix(shown_rows(rows, request.named)), [])]
        guarantees = guarantee_table(rows)
        if guarantees is not None:
            parts += [markdown_text(*guarantees, [])]
    parts += [*(f"- {note}" for note in notes), ""]
    if picture is not None:
        parts += [f"[![{declaration.title}]({picture})]({picture})", ""]  # some are wider than a page
    return "\n".join(parts)
