"""Make a table or figure again: plan, train what is missing, read the values, write them beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedveil.accounting.plan import plan
from fedveil.config.spec import resolve
from fedveil.core.atomic import disk_errors
from fedveil.core.errors import ArgumentError
from fedveil.data.dataset import Dataset
from fedveil.papers.attack_results import run_leaks
from fedveil.papers.catalogue import find_reproduction
from fedveil.papers.measured_rows import measure
from fedveil.papers.planned_work import EpsilonOf, Plan, chosen, digest, make_plan, planned_runs
from fedveil.papers.reproduction import Scale, Stated
from fedveil.papers.result_page import Request, write_all
from fedveil.papers.run_store import RunStore
from fedveil.runs.files import RunFiles
from fedveil.studies.series import (
    Done,
    Follower,
    Planned,
    check_begun,
    check_size,
    failures,
    going_on,
    loaded_for,
    prepared_with,
    run_all,
)

DEFAULT_OUT = Path("runs/reproduce")


@dataclass(frozen=True)
class Reproduced:
    """What a reproduction found: one row per cell, the files written, and which runs failed."""

    name: str
    scale: Scale
    out: Path
    rows: list[dict[str, Any]]
    asked: list[dict[str, Any]]  # the rows that `only` names
    notes: list[str]
    failed: list[str]
    page: Path | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "scale": self.scale,
            "out": str(self.out),
            "table": str(self.out / "table.csv"),
            "picture": str(self.out / "picture.png"),
            "page": str(self.page) if self.page else None,
            "rows": self.asked,
            "notes": self.notes,
            "failed": self.failed,
        }


def reproduce(
    name: str,
    *,
    follower: Follower,
    scale: Scale = "small",
    only: Sequence[str] = (),
    seeds: int | None = None,
    out: str | Path = DEFAULT_OUT,
    workers: int | None = None,
    train: bool = True,
    page: str | Path | None = None,
) -> Reproduced:
    """Make `name` again under `out`, which holds the runs of all reproductions and a directory for this one.

    What is finished is not trained again; interrupted, the same command goes on. The rows are always those of every
    cell, those that `only` leaves out as far as their runs are there; pages and printed tables leave out rows and
    columns in which nothing has run. Without `train` nothing is trained or attacked.
    """
    declaration = find_reproduction(name)
    target = None if page is None else _checked_page(Path(page))
    if seeds is not None and seeds < 1:
        raise ArgumentError("seeds", f"must be at least 1, not {seeds}")
    whole = make_plan(declaration, scale, None if seeds is None else range(1, seeds + 1))
    asked = chosen(whole, only)
    directory, loaded = Path(out), _load(asked)
    with disk_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
    epsilon_of = _verified(loaded)
    planned = planned_runs(asked, epsilon_of)
    check_size(len(planned), workers)
    for run in {run.spec.to_toml(): run for run in planned}.values():
        check_begun(directory / "runs" / run.name, run.spec, "remove it")
    store = RunStore(directory, loaded, epsilon_of, follower, workers)
    lost: list[Done] = []
    with going_on(directory, follower):
        if train and planned:
            _check_ready(directory, planned, loaded)
            done = run_all(directory, planned, follower, records=store.records, workers=workers, need_one=False)
            lost = [run for run in done if run.result is None]
        if train:
            run_leaks(store, asked.cells)
        wanted = {(cell.row, cell.column) for cell in asked.cells}
        rows = measure(store, whole, wanted, lost)
        written = directory / f"{name}-{scale}"
        request = Request(tuple(only), seeds, frozenset(wanted) if only else frozenset())
        notes = write_all(written, store, whole, rows, request, target)
    mine = [row for row in rows if (row["row"], row["column"]) in wanted]
    return Reproduced(name, scale, written, rows, mine, notes, failures(lost), target)


def _checked_page(page: Path) -> Path:
    """Refuse before any training what could not be written after it."""
    if page.is_dir():
        raise ArgumentError("page", f"{page} is a directory; give the name of a file that ends in .md")
    if page.suffix != ".md":
        raise ArgumentError("page", f"{page} must end in .md; the picture gets the same name with .png")
    above = next(path for path in page.absolute().parents if path.exists())
    if not above.is_dir():
        raise ArgumentError("page", f"{page}: {above} is not a directory")
    return page


def _load(plan: Plan) -> dict[str, Dataset]:
    """Every data set that is needed, before anything is trained: a missing one says how to fetch it."""
    works = [*(cell.work for cell in plan.cells), *(line.work for line in plan.lines)]
    loaded: dict[str, Dataset] = {}
    for work in works:
        loaded_for(resolve(work.source, work.overrides).data, loaded)
    return loaded


def _verified(loaded: dict[str, Dataset]) -> EpsilonOf:
    """The verified ε of stated settings, each computed once."""
    known: dict[str, float] = {}

    def epsilon_of(stated: Stated) -> float:
        spec = resolve(stated.source, stated.overrides)
        key = digest(spec, place=stated.place)
        if key not in known:
            prepared = prepared_with(spec, None, loaded)
            known[key] = plan(prepared.context).of(*stated.place).epsilon
        return known[key]

    return epsilon_of


def _check_ready(directory: Path, planned: Sequence[Planned], loaded: dict[str, Dataset]) -> None:
    """Refuse before the first run what the last one could not do; what was begun or must be calibrated is not tried."""
    waiting = [run for run in planned if not RunFiles(directory / "runs" / run.name).manifest.is_file()]
    for spec in {digest(run.spec): run.spec for run in waiting if not run.spec.privacy.calibrate}.values():
        prepared_with(spec, None, loaded)
