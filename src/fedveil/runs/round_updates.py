"""What a caller learns after each round, and the logs that people look at: CSV, TensorBoard, MLflow."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from fedveil.accounting.table import Table
from fedveil.core.atomic import disk_errors
from fedveil.core.errors import ArgumentError
from fedveil.core.guarantee import Guarantee
from fedveil.core.types import Unit, View
from fedveil.report.model.guarantee_headline import spoken_of

LOGS = ("csv", "tensorboard", "mlflow")
"""Where the figures of every round can be written."""


@dataclass(frozen=True)
class RoundUpdate:
    """One finished round: how many there are, what was measured, how long it took.

    `figures` are those of the round's evaluation (`loss`, `accuracy` …) and the mean loss of training; on private
    records they are covered by no ε. What was spent so far is read from the ledger when it is asked for, while the
    callback runs.
    """

    run: Path
    round: int  # 1 after the first
    rounds: int
    figures: Mapping[str, float]
    seconds: float
    _spent: Callable[[], Table] = field(repr=False, compare=False)

    @property
    def spent(self) -> Table:
        """What was spent up to here, cell by cell, the most of any client."""
        return self._spent()

    def guarantee(self, unit: Unit | str = Unit.RECORD, view: View | str = View.SERVER) -> Guarantee:
        """What was spent up to here in one cell."""
        return self.spent.of(Unit(unit), View(view))


OnRound = Callable[[RoundUpdate], None]
"""Called after a round is published. What it raises ends the run, which can be resumed."""


@dataclass
class RoundLog:
    """Figures and ε of every round. The first ε that is finite after the first round is the one that is followed."""

    write: Callable[[RoundUpdate, dict[str, float]], None]
    _cell: tuple[Unit, View] | None = None

    def __call__(self, update: RoundUpdate) -> None:
        spent = update.spent
        if self._cell is None:
            chosen = spoken_of(spent.guarantees)
            self._cell = (Unit.RECORD, View.SERVER) if chosen is None else (chosen.unit, chosen.view)
        unit, view = self._cell
        epsilon = {f"epsilon_{unit}_{view}": spent.of(unit, view).epsilon}
        self.write(update, {**update.figures, **epsilon, "seconds": update.seconds})


@contextmanager
def round_log(kind: str) -> Iterator[RoundLog]:
    """A log to be given to `run` as `on_round`. What is not installed is said before anything is trained."""
    if kind not in LOGS:
        raise ArgumentError("log", f"there is no log {kind!r}; there are {', '.join(LOGS)}")
    opened = {"csv": _csv, "tensorboard": _tensorboard, "mlflow": _mlflow}[kind]
    with opened() as write:
        yield RoundLog(write)


_Write = Callable[[RoundUpdate, dict[str, float]], None]


@contextmanager
def _csv() -> Iterator[_Write]:
    """`rounds.csv` in the run's directory, a line for each round; a resumed run appends."""
    columns: list[str] = []

    def write(update: RoundUpdate, figures: dict[str, float]) -> None:
        path = update.run / "rounds.csv"
        with disk_errors(path):
            fresh = not path.exists()
            if not columns:
                columns.extend(["round", *figures] if fresh else _heading(path))
            with path.open("a", newline="", encoding="utf-8") as stream:
                writer = csv.DictWriter(stream, columns, extrasaction="ignore", lineterminator="\n")
                if fresh:
                    writer.writeheader()
                writer.writerow({"round": update.round, **figures})

    yield write


def _heading(path: Path) -> list[str]:
    with path.open(encoding="utf-8", newline="") as stream:
        return next(csv.reader(stream), [])


@contextmanager
def _tensorboard() -> Iterator[_Write]:
    """Events in `tensorboard/` of the run's directory."""
    writers = _installed("torch.utils.tensorboard", "tensorboard")
    opened: list[Any] = []

    def write(update: RoundUpdate, figures: dict[str, float]) -> None:
        if not opened:
            opened.append(writers.SummaryWriter(str(update.run / "tensorboard")))
        for name, value in _drawable(figures):
            opened[0].add_scalar(name, value, update.round)
        opened[0].flush()

    try:
        yield write
    finally:
        for writer in opened:
            writer.close()


@contextmanager
def _mlflow() -> Iterator[_Write]:
    """A run of MLflow with the name of the run's directory, where MLFLOW_TRACKING_URI says, else in ./mlruns."""
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # folders need no database, and are asked for here
    mlflow = _installed("mlflow", "mlflow")
    if "MLFLOW_TRACKING_URI" not in os.environ:
        mlflow.set_tracking_uri(Path("mlruns").resolve().as_uri())
    try:
        mlflow.start_run()
    except Exception as error:  # of its servers and databases
        raise ArgumentError("log", f"mlflow can't begin a run: {' '.join(str(error).split())}") from None
    named = False

    def write(update: RoundUpdate, figures: dict[str, float]) -> None:
        nonlocal named
        if not named:
            mlflow.set_tag("mlflow.runName", update.run.name)
            named = True
        mlflow.log_metrics(dict(_drawable(figures)), step=update.round)

    try:
        yield write
    finally:
        mlflow.end_run()


def _drawable(figures: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """An infinite ε has no place on an axis."""
    return ((name, value) for name, value in figures.items() if math.isfinite(value))


def _installed(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise ArgumentError(
            "log", f"{package} is not installed; run: pip install 'fedveil[{package}]' (or {package} itself)"
        ) from None
