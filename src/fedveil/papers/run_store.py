"""Where the runs of reproductions are, and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedveil.config.data_spec import DataSpec
from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset
from fedveil.papers.planned_work import EpsilonOf, digest, run_name, spec_of
from fedveil.papers.reproduction import Setting, Stated, Training
from fedveil.runs.files import RunFiles
from fedveil.runs.manifest import maker_line
from fedveil.runs.prepare import Prepared
from fedveil.runs.run import resume
from fedveil.studies.series import Done, Follower, loaded_for, prepared_with, round_events


@dataclass(frozen=True)
class RunStore:
    """Where the runs are, and what reading them needs."""

    directory: Path
    loaded: dict[str, Dataset]
    epsilon_of: EpsilonOf
    follower: Follower
    workers: int | None
    settings: dict[str, Prepared] = field(default_factory=dict)

    def records(self, data: DataSpec) -> Dataset:
        """The data set of a spec, read once."""
        return loaded_for(data, self.loaded)

    def lacks_data(self, work: Training | Setting | Stated) -> bool:
        """Whether the records behind a piece of work are not on this machine; read, and kept, where they are."""
        data = resolve(work.source, work.overrides).data
        try:
            self.records(data)
        except FedveilError:
            return True
        return False

    def run_path(self, name: str) -> Path:
        return self.directory / "runs" / name

    def runs(self, work: Training, seeds: Sequence[int]) -> list[Done]:
        """Those of its runs that are finished and can be read; where the records are here, only those on them."""
        spec = spec_of(work, self.epsilon_of)
        paths = [self.run_path(f"{run_name(spec)}-seed{seed}") for seed in seeds]
        paths = [path for path in paths if RunFiles(path).result.exists()]
        dataset = None if not paths or self.lacks_data(work) else self.records(spec.data)
        finished = []
        for path in paths:
            try:
                finished.append(Done(path.name, resume(path, dataset=dataset), tuple(round_events(path))))
            except FedveilError as error:
                self.follower.note(str(error))
        return finished

    def maker(self, done: Done) -> str:
        """The machine and the versions that made a run, and the day on which it began, as it says itself."""
        files = RunFiles(self.run_path(done.name))
        return maker_line(files.read_json(files.manifest))

    def prepared_run(self, done: Done) -> Prepared:
        """By the run's own spec, whose noise is solved already where it was calibrated."""
        return prepared_with(resolve(RunFiles(self.run_path(done.name)).spec), None, self.loaded)

    def prepared_setting(self, work: Setting) -> Prepared:
        spec = spec_of(work, self.epsilon_of)
        key = digest(spec)
        if key not in self.settings:
            self.settings[key] = prepared_with(spec, None, self.loaded)
        return self.settings[key]
