"""How far a training of an audit is: clients whose work is done, over all its parts and rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fedveil.core.progress import tell
from fedveil.core.types import Taps
from fedveil.engine.batched import Evaluation
from fedveil.engine.client import Broadcast, Upload
from fedveil.engine.loop import Runtime
from fedveil.engine.personal_models import Starts
from fedveil.engine.server_state import ServerState


@dataclass
class CountedRuntime:
    """A runtime that tells which share of the clients' work of a training is done: `parts`, each in so many rounds."""

    inner: Runtime
    title: str
    rounds: int
    parts: Sequence[Sequence[int]] | None
    _cohorts: list[int] = field(default_factory=list)  # whose work is done

    def train(
        self, broadcast: Broadcast, cohort: Sequence[int], taps: Taps, starts: Starts | None = None
    ) -> Iterator[Upload]:
        clients = sum(map(len, self.parts)) if self.parts is not None else len(cohort)
        before, total = sum(self._cohorts), self.rounds * clients
        tell(self.title, before / total)
        for done, upload in enumerate(self.inner.train(broadcast, cohort, taps, starts), 1):
            yield upload
            tell(self.title, min((before + done) / total, 1.0))
        self._cohorts.append(len(cohort))

    def evaluate(self, state: ServerState) -> Evaluation:
        return self.inner.evaluate(state)
