"""How good a model is on records it was not trained on: the figures of each task, on all records and on each site's.

docs/metrics.md says in plain words what each figure is. `None` stands for a figure that these records do not define.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from fedveil.core.tasks import Classification, Task, read_task, task_record


@dataclass(frozen=True)
class Figure:
    """One way to say how good a model is. `in_unit`: it has the unit of the number that is to be told."""

    key: str
    name: str
    larger_is_better: bool
    in_unit: bool = False


CLASS_FIGURES = (
    Figure("accuracy", "accuracy", True),
    Figure("balanced_accuracy", "balanced accuracy", True),
    Figure("auc", "AUC", True),
    Figure("log_loss", "log-loss", False),
    Figure("calibration_error", "calibration error", False),
)
NUMBER_FIGURES = (
    Figure("rmse", "RMSE", False, in_unit=True),
    Figure("mae", "MAE", False, in_unit=True),
    Figure("r2", "R²", True),
)
FIGURES = {figure.key: figure for figure in (*CLASS_FIGURES, *NUMBER_FIGURES)}
MAIN_FIGURES = (CLASS_FIGURES[0], NUMBER_FIGURES[0])
"""The one by which runs are compared: of classes, of numbers."""


def main_figure(task: Task) -> Figure:
    return MAIN_FIGURES[0 if isinstance(task, Classification) else 1]


@dataclass(frozen=True)
class ClassScores:
    """Of answers that are classes. `majority` is the share of the commonest class, `commonest`: what a model reaches
    that knows nothing of a record.
    """

    records: int
    accuracy: float | None
    majority: float
    commonest: str
    balanced_accuracy: float | None
    auc: float | None
    log_loss: float | None
    calibration_error: float | None

    @property
    def is_no_better_than_a_guess(self) -> bool:
        """Whether always naming the commonest class is right as often, as far as so many records can tell."""
        chance = math.sqrt(self.majority * (1 - self.majority) / max(self.records, 1))
        return self.accuracy is None or self.accuracy - self.majority <= chance


@dataclass(frozen=True)
class NumberScores:
    """Of answers that are numbers, in their unit."""

    records: int
    rmse: float | None
    mae: float | None
    r2: float | None

    @property
    def is_no_better_than_a_guess(self) -> bool:
        """Whether always telling the mean has errors as small."""
        return self.r2 is None or self.r2 <= 0


PartScores = ClassScores | NumberScores
"""The figures of one part of the records."""


@dataclass(frozen=True)
class SiteScores:
    """The figures on the validation records of one site."""

    site: str
    scores: PartScores


@dataclass(frozen=True)
class Scores:
    """How good a model is on the validation records: on all of them, and on those of each named site that has any."""

    task: Task
    overall: PartScores
    sites: tuple[SiteScores, ...] = ()

    @property
    def figures(self) -> tuple[Figure, ...]:
        return CLASS_FIGURES if isinstance(self.overall, ClassScores) else NUMBER_FIGURES

    @property
    def main(self) -> float | None:
        """The figure by which runs are compared."""
        return value_of(self.overall, main_figure(self.task))

    def worst(self, figure: Figure) -> tuple[str, float] | None:
        """The site on which a figure is worst, and its value there; None where no site defines it."""
        known = [(one.site, value) for one in self.sites if (value := value_of(one.scores, figure)) is not None]
        choose = min if figure.larger_is_better else max
        return choose(known, key=lambda pair: pair[1]) if known else None

    def mean_of_sites(self, figure: Figure) -> float | None:
        """The mean over the sites that define a figure, each counted alike, however many records it has."""
        known = [value for one in self.sites if (value := value_of(one.scores, figure)) is not None]
        return math.fsum(known) / len(known) if known else None

    def to_dict(self) -> dict[str, Any]:
        worst = {figure.key: self.worst(figure) for figure in self.figures}
        return {
            "task": task_record(self.task),
            "overall": asdict(self.overall),
            "sites": [{"site": one.site, **asdict(one.scores)} for one in self.sites],
            "mean_of_sites": {figure.key: self.mean_of_sites(figure) for figure in self.figures} if self.sites else {},
            "worst_site": {
                key: {"site": found[0], "value": found[1]} for key, found in worst.items() if found is not None
            },
        }

    @staticmethod
    def from_dict(table: Mapping[str, Any]) -> Scores:
        """What `to_dict` made; KeyError, TypeError or ValueError for anything else."""
        task = read_task(table["task"])
        if task is None:
            raise ValueError("not a task")
        kind = ClassScores if isinstance(task, Classification) else NumberScores
        sites = tuple(SiteScores(str(one["site"]), _read_part(kind, one)) for one in table["sites"])
        return Scores(task, _read_part(kind, table["overall"]), sites)


def value_of(scores: PartScores, figure: Figure) -> float | None:
    value: float | None = getattr(scores, figure.key)
    return value


def _read_part(kind: type[ClassScores] | type[NumberScores], table: Mapping[str, Any]) -> PartScores:
    values = {field.name: table[field.name] for field in fields(kind)}
    for name, value in values.items():
        number = value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        if number == (name == "commonest") or (value is None and name in ("records", "majority")):
            raise TypeError(f"{name} is {value!r}")
    return kind(**values)
