"""A set of runs in one directory. The same command, given again, finishes what was left unfinished.

The directory holds `series.json`, which says what it is, and one run directory per planned run under `runs/`. The runs'
own `spec.toml` is the truth about what they are: a run whose spec differs from what is planned is never continued.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from fedveil.config.data_spec import DataSpec, data_table, said_of_files
from fedveil.config.public_facts import load_for
from fedveil.config.spec import PLACES, Spec, resolve
from fedveil.core.atomic import disk_errors, make_folder
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.data.dataset import Dataset
from fedveil.report.model.score_texts import main_text
from fedveil.report.terminal.run_progress import Reporter
from fedveil.runs.files import BEGINNING_SECONDS, RunFiles
from fedveil.runs.prepare import Prepared, prepare
from fedveil.runs.result import Result
from fedveil.runs.run import resume, run
from fedveil.runtimes.local import count_workers

SERIES_FORMAT = 1
"""The version of the directory of a series; another one is refused."""

MOST_PLANNED = 1000
"""More runs than anybody means to start with one command."""


_PART = re.compile(r"\.(series\.json|table\.(csv|md))\.\d+\.part")


class Follower(Reporter, Protocol):
    """Follows a series: all its runs, and each one's rounds."""

    def plan(self, runs: int, finished: int, rounds: int) -> None:
        """`runs` runs, of which `finished` are already there; `rounds` rounds of the others, done ones included."""

    def next_run(self, name: str, rounds: int) -> None: ...

    def end_run(self, outcome: str) -> None: ...

    def interrupted(self, directory: Path) -> None:
        """What is finished is kept in `directory`, and the same call goes on there."""


@dataclass(frozen=True)
class Planned:
    """A run that the series wants: the name of its directory, and its spec."""

    name: str
    spec: Spec


@dataclass(frozen=True)
class Done:
    """A run after its turn: its result and its rounds' events, or why there is no result."""

    name: str
    result: Result | None
    rounds: tuple[dict[str, Any], ...]
    failure: FedveilError | None = None


def with_seeds(name: str, spec: Spec, seeds: Sequence[int] | None) -> list[Planned]:
    """One run as the spec says, or one for every seed."""
    if seeds is None:
        return [Planned(name, spec)]
    return [Planned(f"{name}-seed{seed}", replace(spec, seed=seed)) for seed in seeds]


def count_seeds(seeds: int) -> tuple[int, ...]:
    """The seeds 1 … N."""
    if seeds < 1:
        raise ArgumentError("seeds", f"must be at least 1, not {seeds}")
    return tuple(range(1, seeds + 1))


def check_size(runs: int, workers: int | None) -> None:
    """Refuse too many runs or workers, before anything is created."""
    count_workers(workers)
    if runs > MOST_PLANNED:
        raise FedveilError(f"{runs:,} runs are more than the {MOST_PLANNED:,} that one command may start")


def prepared_with(spec: Spec, dataset: Dataset | None, loaded: dict[str, Dataset]) -> Prepared:
    """`prepare`, with every named data set read once (`loaded` keeps them)."""
    if dataset is not None:
        return prepare(spec, dataset)
    return prepare(spec, loaded_for(spec.data, loaded))


def loaded_for(data: DataSpec, loaded: dict[str, Dataset]) -> Dataset:
    """The data set of a spec, read once for each split of it, or for each choice of files."""
    files = {key: value for key, value in data_table(data).items() if key in said_of_files(data)}
    key = f"{data.name}, {data.split} split, {files}"
    if key not in loaded:
        loaded[key] = load_for(data)
    return loaded[key]


def open_series(directory: Path, kind: str, planned: Sequence[Planned]) -> None:
    """Make the directory, or check that it holds this series and nothing else."""
    about = directory / "series.json"
    with disk_errors(directory):
        if not about.is_file() and not _is_new(directory):
            raise ArgumentError("out", f"{directory} holds something that is not a {kind}; choose another directory")
        if not directory.exists():
            make_folder(directory)
    if about.is_file():
        _check_series(directory, RunFiles(directory).read_json(about), kind, planned)
    else:
        RunFiles(directory).write_json(about, {"format": SERIES_FORMAT, "kind": kind, "fedveil": version("fedveil")})
    with disk_errors(directory):
        _clear_parts(directory)
        if not (directory / "runs").is_dir():
            make_folder(directory / "runs")


def _is_new(directory: Path) -> bool:
    """Whether nothing is there, or no more than what is left when the beginning of a series is killed."""
    if not directory.exists():
        return True
    return directory.is_dir() and all(_PART.fullmatch(entry.name) for entry in directory.iterdir())


def _clear_parts(directory: Path) -> None:
    """Remove tables that killed processes left half-written. A young one may be in the making by another process."""
    for entry in directory.iterdir():
        if _PART.fullmatch(entry.name) and time.time() - entry.stat().st_mtime >= BEGINNING_SECONDS:
            entry.unlink(missing_ok=True)


def _check_series(directory: Path, about: dict[str, Any], kind: str, planned: Sequence[Planned]) -> None:
    if about.get("format") != SERIES_FORMAT or about.get("kind") != kind:
        raise ArgumentError(
            "out",
            f"{directory} holds a {about.get('kind', 'series')} (format {about.get('format')}), not a {kind}"
            f" (format {SERIES_FORMAT}); choose another directory",
        )
    wanted = {run.name: run.spec for run in planned}
    for path in run_directories(directory):
        if path.name not in wanted:
            raise ArgumentError("out", f"{path} is a run that was not asked for; choose another directory")
        check_begun(path, wanted[path.name], "ask for the same runs again")


def check_begun(path: Path, wanted: Spec, remedy: str) -> None:
    """A run is what its own spec says; one that was made with other settings is never continued or shown.

    A run that is to be calibrated was written down with the noise that was found for it, and one on the sites of a
    table with their number.
    """
    files = RunFiles(path)
    if not files.manifest.is_file():
        return  # stopped before its first round
    stored = resolve(files.spec)
    solved: tuple[str, ...] = ()
    if wanted.privacy.calibrate and files.read_json(files.manifest).get("calibrated"):
        solved = ("privacy.calibrate", *(f"{place}.sigma" for place in PLACES))
    solved += () if wanted.data.clients else ("data.clients",)  # sites of a table are counted when it is read
    differing = [one for one in differences(stored.to_dict(), wanted.to_dict()) if one.key not in solved]
    if differing:
        raise ArgumentError(
            "out", f"{path} was made with another {differing[0]}; {remedy}, or choose another directory"
        )


def run_directories(directory: Path) -> list[Path]:
    """The directories under `runs/`."""
    runs = directory / "runs"
    with disk_errors(runs):
        return sorted(runs.iterdir()) if runs.is_dir() else []


@dataclass(frozen=True)
class Difference:
    """A dotted key that has another value in a second table."""

    key: str
    there: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.key} ({_word(self.there)} there, {_word(self.now)} now)"


def differences(old: Mapping[str, Any], new: Mapping[str, Any], above: str = "") -> list[Difference]:
    """The keys in which two tables differ."""
    differing = []
    for key in dict.fromkeys([*old, *new]):
        mine, other = old.get(key), new.get(key)
        if isinstance(mine, dict) and isinstance(other, dict):
            differing += differences(mine, other, f"{above}{key}.")
        elif mine != other:
            differing.append(Difference(f"{above}{key}", mine, other))
    return differing


def _word(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, default=str, ensure_ascii=False)


@contextmanager
def going_on(directory: Path, follower: Follower) -> Iterator[None]:
    """Ctrl-C says what to do to go on."""
    try:
        yield
    except KeyboardInterrupt:
        follower.interrupted(directory)
        raise


def run_all(
    directory: Path,
    planned: Sequence[Planned],
    follower: Follower,
    *,
    records: Callable[[DataSpec], Dataset],
    workers: int | None = None,
    need_one: bool = True,
) -> list[Done]:
    """Every planned run, in order: read if it is finished, resumed if it was begun, else trained.

    `records` gives the data set of a run. One that was made on others, or on other features of the same, is refused.
    A run that fails (diverges, say) does not take the others with it; its `failure` says why. Where `need_one`, at
    least one must come to its end.
    """
    paths = [directory / "runs" / run.name for run in planned]
    missing = [run for run, path in zip(planned, paths, strict=True) if not RunFiles(path).result.exists()]
    follower.plan(len(planned), len(planned) - len(missing), sum(run.spec.method.rounds for run in missing))
    dones = []
    for one, path in zip(planned, paths, strict=True):
        unfinished = not RunFiles(path).result.exists()
        if unfinished:
            follower.next_run(one.name, one.spec.method.rounds)
        done = _one(one, path, follower, workers, records(one.spec.data))
        if unfinished:
            follower.end_run(_outcome(done))
        dones.append(done)
    if need_one and all(done.result is None for done in dones):
        raise FedveilError(f"no run was finished; {dones[0].name}: {dones[0].failure}")
    return dones


def _one(planned: Planned, path: Path, follower: Follower, workers: int | None, dataset: Dataset) -> Done:
    try:
        if RunFiles(path).manifest.is_file():
            result = resume(path, workers=workers, dataset=dataset, reporter=follower)
        else:
            RunFiles(path).clear_beginning()
            result = run(planned.spec, out=path, workers=workers, dataset=dataset, reporter=follower)
    except FedveilError as error:
        return Done(planned.name, None, tuple(round_events(path)), error)
    return Done(planned.name, result, tuple(round_events(path)))


def _outcome(done: Done) -> str:
    if done.result is None:
        return f"failed: {done.failure}"
    result = done.result
    return f"{main_text(result.scores, result.accuracy)} after {result.rounds} rounds in {result.seconds:.1f} s"


def round_events(path: Path) -> list[dict[str, Any]]:
    """What happened in a run, round by round."""
    return [event for event in RunFiles(path).read_events() if event["event"] == "round"]


def failures(runs: Sequence[Done]) -> list[str]:
    return [f"{run.name}: {run.failure}" for run in runs if run.result is None]
