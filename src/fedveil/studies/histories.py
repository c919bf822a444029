"""How runs went, finished or not, read from their events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedveil.config.spec import resolve
from fedveil.core.atomic import disk_errors
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import SEEDED
from fedveil.core.tasks import Task, read_task
from fedveil.report.model.score_texts import measured_text
from fedveil.report.plots.training_panels import draw_training_panels
from fedveil.runs.files import RunFiles
from fedveil.studies.series import round_events, run_directories

MOST_LINES = 28
"""More lines than this can't be told apart."""


@dataclass(frozen=True)
class History:
    """One run's rounds, oldest first; `planned` is how many it was to have, `finished` whether it came to its end."""

    name: str
    base: str
    data: str
    finished: bool
    planned: int
    seeded: bool
    task: Task | None  # older runs did not write it down
    rounds: tuple[dict[str, Any], ...]

    @property
    def title(self) -> str:
        """Its name in a picture."""
        return self.name if self.finished else f"{self.name} ({self._unfinished})"

    @property
    def _unfinished(self) -> str:
        return f"unfinished: {len(self.rounds)} of {self.planned} rounds"

    @property
    def line(self) -> str:
        """One line about it."""
        ends = "" if self.finished else f", {self._unfinished}"
        measured = [text for event in self.rounds if (text := measured_text(event, self.task))]
        last = f", {measured[-1]}" if measured else ""
        seeded = f", {SEEDED.text}" if self.seeded else ""
        return f"{self.name}: {self.base} on {self.data}, {len(self.rounds)} rounds{last}{ends}{seeded}"


def read_histories(directories: Sequence[str | Path]) -> list[History]:
    """The histories of run directories; the directory of a comparison or a sweep stands for all its runs."""
    paths = expanded(directories)
    if len(paths) > MOST_LINES:
        raise FedveilError(f"{len(paths)} runs are too many for one picture; name at most {MOST_LINES}")
    return [_read(path, name) for path, name in zip(paths, names_of(paths), strict=True)]


def expanded(directories: Sequence[str | Path]) -> list[Path]:
    """Run directories; that of a comparison or a sweep stands for all its runs."""
    return [path for directory in directories for path in _expand(Path(directory))]


def names_of(paths: Sequence[Path]) -> list[str]:
    """A run's name is that of its directory; where several have the same, the path that was given."""
    common = Counter(path.resolve().name for path in paths)
    return [path.resolve().name if common[path.resolve().name] == 1 else str(path) for path in paths]


def _expand(directory: Path) -> list[Path]:
    if not (directory / "series.json").is_file():
        return [directory]
    begun = [path for path in run_directories(directory) if RunFiles(path).manifest.is_file()]
    if not begun:
        raise FedveilError(f"{directory}: none of its runs has begun yet")
    return begun


def _read(path: Path, name: str) -> History:
    files = RunFiles(path)
    files.check()
    spec = resolve(files.spec)
    rounds = sorted(round_events(path), key=lambda event: int(event["round"]))
    if not rounds:
        raise FedveilError(f"{path}: no round of it is finished yet, so there is nothing to show")
    return History(
        name=name,
        base=spec.base,
        data=spec.data.name,
        finished=files.result.exists(),
        planned=spec.method.rounds,
        seeded=spec.seed is not None,
        task=read_task(files.read_json(files.manifest).get("task")),
        rounds=tuple(rounds),
    )


def show(directories: Sequence[str | Path], out: str | Path | None = None) -> tuple[list[History], Path]:
    """Draw the histories; returns them and where the picture is."""
    histories = read_histories(directories)
    default = f"{Path(histories[0].name).name}-course.png" if len(histories) == 1 else "course.png"
    path = Path(out) if out is not None else Path(default)
    lines = [{"name": history.title, "rounds": history.rounds} for history in histories]
    bases, data = (dict.fromkeys(getattr(history, word) for history in histories) for word in ("base", "data"))
    title = f"{', '.join(bases)} on {', '.join(data)}"
    with disk_errors(path):
        draw_training_panels(path, title if len(title) <= 90 else f"{len(histories)} runs", lines)
    return histories, path
