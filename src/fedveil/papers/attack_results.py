"""Attacks of a reproduction: each is made once, and its result and picture kept."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedveil.core.atomic import disk_errors
from fedveil.papers.planned_work import digest, spec_of
from fedveil.papers.reproduction import Cell, Leak
from fedveil.papers.run_store import RunStore
from fedveil.report.model.number_texts import duration_text
from fedveil.runs.files import RunFiles
from fedveil.studies.attack import attack


def leak_path(store: RunStore, work: Leak) -> Path:
    """The file of an attack's result; its picture stands beside it."""
    spec = spec_of(work, store.epsilon_of)
    name = f"{spec.data.name}-{spec.base}-{work.view}-{digest(spec, view=str(work.view), attack=dict(work.options))}"
    return store.directory / "attacks" / f"{name}.json"


def stored_leak(store: RunStore, work: Leak) -> Mapping[str, Any] | None:
    path = leak_path(store, work)
    return RunFiles(store.directory).read_json(path) if path.is_file() else None


def run_leaks(store: RunStore, cells: Sequence[Cell]) -> None:
    """Every attack that is not there yet; what is finished stays, also of one that is interrupted."""
    works = {leak_path(store, cell.work): cell.work for cell in cells if isinstance(cell.work, Leak)}
    missing = {path: work for path, work in works.items() if not path.is_file()}
    begun = time.monotonic()
    for index, (path, work) in enumerate(missing.items()):
        left = (time.monotonic() - begun) / index * (len(missing) - index) if index else None
        remaining = "" if left is None else f"; about {duration_text(left)} left"
        store.follower.note(f"attack {index + 1}/{len(missing)}: {path.stem}{remaining}")
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        result = attack(
            work.source,
            work.overrides,
            view=work.view,
            out=path.with_suffix(".png"),
            workers=store.workers,
            note=store.follower.note,
            unfinished=unfinished,
            **work.options,
        ).to_dict()
        result.pop("per_victim")
        RunFiles(store.directory).write_json(path, result)
        shutil.rmtree(unfinished, ignore_errors=True)
