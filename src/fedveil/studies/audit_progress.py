"""How far the trainings of an audit are: clients whose work is done, round by round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from fedveil.core.types import Taps
from fedveil.engine.batched import Evaluation
from fedveil.engine.client import Broadcast, Upload
from fedveil.engine.job import Job
from fedveil.engine.loop import MakeRuntime, Runtime
from fedveil.engine.personal_models import Starts
from fedveil.engine.server_state import ServerState
from fedveil.studies.attack_progress import Progress


@dataclass
class _Counting:
    """A runtime that says which share of a cohort has answered."""

    inner: Runtime
    progress: Progress
    training: int

    def train(
        self, broadcast: Broadcast, cohort: Sequence[int], taps: Taps, starts: Starts | None = None
    ) -> Iterator[Upload]:
        title = f"training {self.training}, round {broadcast.round + 1}"
        self.progress(title, 0.0)
        for done, upload in enumerate(self.inner.train(broadcast, cohort, taps, starts), 1):
            yield upload
            self.progress(title, done / len(cohort))

    def evaluate(self, state: ServerState) -> Evaluation:
        return self.inner.evaluate(state)


def watched_runtime(make: MakeRuntime, progress: Progress) -> MakeRuntime:
    """The same runtimes, which tell how far each training of an audit is: first of all canaries, then of a few."""
    trainings = 0

    @contextmanager
    def made(job: Job) -> Iterator[Runtime]:
        nonlocal trainings
        trainings += 1
        with make(job) as runtime:
            yield _Counting(runtime, progress, trainings)

    return made
