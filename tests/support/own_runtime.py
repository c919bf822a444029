"""A runtime of one's own: one client after another, in this process, with a note of every call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

from fedveil.core.types import Taps
from fedveil.engine.batched import EVALUATION_SLICE, Engine, Evaluation
from fedveil.engine.client import Broadcast, Upload
from fedveil.engine.job import Job
from fedveil.engine.loop import MakeRuntime, Runtime
from fedveil.engine.personal_models import Starts
from fedveil.engine.server_state import ServerState


class OneByOne:
    """All that the loop asks of a runtime, in the simplest way."""

    def __init__(self, job: Job) -> None:
        self._engine = Engine(job)

    def train(
        self, broadcast: Broadcast, cohort: Sequence[int], taps: Taps, starts: Starts | None = None
    ) -> Iterator[Upload]:
        for client in cohort:
            yield from self._engine.train(broadcast, [client], taps, None if starts is None else starts([client]))

    def evaluate(self, state: ServerState) -> Evaluation:
        firsts = range(0, len(self._engine.job.validation), EVALUATION_SLICE)
        return Evaluation.total(self._engine.evaluate(state.parameters, first) for first in firsts)


@contextmanager
def one_by_one(job: Job) -> Iterator[Runtime]:
    yield OneByOne(job)


class Noted:
    """Makes runtimes as `make` does, and notes the jobs it was given, the models sent out and the uploads."""

    def __init__(self, make: MakeRuntime) -> None:
        self._make = make
        self.jobs: list[Job] = []
        self.open = 0
        self.models: list[Tensor] = []
        self.clients: list[int] = []

    @contextmanager
    def __call__(self, job: Job) -> Iterator[Runtime]:
        self.jobs.append(job)
        with self._make(job) as runtime:
            self.open += 1
            try:
                yield _Noting(runtime, self)
            finally:
                self.open -= 1


class _Noting:
    def __init__(self, runtime: Runtime, notes: Noted) -> None:
        self._runtime, self._notes = runtime, notes
        self.evaluate = runtime.evaluate

    def train(
        self, broadcast: Broadcast, cohort: Sequence[int], taps: Taps, starts: Starts | None = None
    ) -> Iterator[Upload]:
        self._notes.models.append(broadcast.parameters.clone())
        for upload in self._runtime.train(broadcast, cohort, taps, starts):
            self._notes.clients.append(upload.client)
            yield upload
