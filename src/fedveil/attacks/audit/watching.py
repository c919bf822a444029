"""A watcher stands where the training loop expects its runtime and keeps what an adversary sees.

It hands every call on to the real runtime, asks for the view that is audited, looks at what comes back, and passes the
uploads on. Nothing of training, clipping or noise is repeated here; the adversary only computes what a canary's own
gradient would be, with the engine's gradients, as any adversary who knows the canary and the public model can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from fedveil.attacks.audit.bounds import Coins, Readings
from fedveil.attacks.audit.canaries import Records, clipped_gradients
from fedveil.core.types import Taps
from fedveil.engine.batched import Evaluation
from fedveil.engine.client import NO_TAPS, Broadcast, Upload
from fedveil.engine.gradients import Factors, Gradients
from fedveil.engine.loop import Closed, Runtime
from fedveil.engine.personal_models import Starts
from fedveil.engine.server_state import ServerState
from fedveil.method import Method

BLOCKS = 4
"""Parts of an update that are read one by one, so that noise that is missing in one of them shows."""


class Place(NamedTuple):
    """Where something was seen; `step` and `slot` of single gradients."""

    round: int
    client: int
    step: int = 0
    slot: int = 0


Seen = TypeVar("Seen")


def _of(seen: Mapping[Place, Seen], clients: Set[int]) -> dict[Place, Seen]:
    return {place: one for place, one in seen.items() if place.client in clients}


@dataclass
class Samples:
    """What some clients sent who hold nothing: noise alone. Only the given coordinates of it are kept."""

    clients: frozenset[int] = frozenset()
    coordinates: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    noise: dict[Place, Tensor] = field(default_factory=dict)
    reports: dict[Place, Tensor] = field(default_factory=dict)  # still with what is reported
    records: dict[Place, int] = field(default_factory=dict)  # how many records the batches of the round held

    def of(self, clients: Set[int]) -> Samples:
        """Those of these clients alone."""
        return Samples(
            self.clients.intersection(clients),
            self.coordinates,
            _of(self.noise, clients),
            _of(self.reports, clients),
            _of(self.records, clients),
        )


@dataclass(kw_only=True)
class Watcher:
    """A runtime that only watches.

    `scores[i]` is of the canary in client `clients[i]`, and row i of `readings` all single numbers behind it. What the
    clients `kept` sent stays, for a comparison with a second training.
    """

    runtime: Runtime
    method: Method
    clients: tuple[int, ...]
    samples: Samples = field(default_factory=Samples)
    kept: frozenset[int] = frozenset()
    seen: dict[Place, Tensor] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._scores = np.zeros(len(self.clients))
        self._canary = {client: index for index, client in enumerate(self.clients)}
        self._columns: dict[tuple[int, str], Readings] = {}

    @property
    def scores(self) -> Readings:
        """Higher for "was in". What is not a number was made by a record that is none: the canary is out."""
        finite = np.isfinite(self._scores)
        lowest = self._scores[finite].min() if finite.any() else 0.0
        return np.where(finite, self._scores, lowest - 1)

    @property
    def readings(self) -> Readings:
        """One column for each number that was read of every canary; one more says whether all of them are numbers."""
        columns = [self._columns[key] for key in sorted(self._columns)]
        table = np.stack([self._scores, *columns], axis=1)
        finite = np.isfinite(table).all(axis=1, keepdims=True)
        return np.concatenate((np.where(finite, table, 0.0), finite.astype(np.float64)), axis=1)

    def train(
        self, broadcast: Broadcast, cohort: Sequence[int], taps: Taps, starts: Starts | None = None
    ) -> Iterator[Upload]:
        for members, wanted in self._watched(broadcast, cohort):
            for upload in self.runtime.train(broadcast, members, wanted, self._starts(broadcast, starts)):
                self._look(broadcast, upload)
                yield replace(upload, observations=())

    def forget_others(self, clients: Set[int]) -> None:
        """Keep what was seen of these clients: the others' work was not finished."""
        self.samples, self.seen = self.samples.of(clients), _of(self.seen, clients)

    def evaluate(self, state: ServerState) -> Evaluation:
        return self.runtime.evaluate(state)

    def published(self, before: ServerState, closed: Closed) -> None:
        """A new model is out. Only whoever sees nothing else looks at it."""

    def _look(self, broadcast: Broadcast, upload: Upload) -> None:
        sampled, kept = upload.client in self.samples.clients, upload.client in self.kept
        if sampled or kept:
            for place, noisy in self._noisy(broadcast, upload):
                if sampled:
                    self.samples.noise[place] = noisy[self.samples.coordinates].clone()
                if kept:
                    self.seen[place] = noisy.clone()
        if sampled:
            place = Place(broadcast.round, upload.client)
            assert upload.statistics is not None  # an audit's clients are simulated
            self.samples.records[place] = upload.statistics.rejected  # none of their records is a number
            if upload.report is not None:
                self.samples.reports[place] = upload.report
        if upload.client in self._canary:
            self._read(broadcast, upload, self._canary[upload.client])

    def _note(self, round: int, name: str, index: int, value: float) -> None:
        """`value` was read of canary `index`; values of one name add up."""
        column = self._columns.setdefault((round, name), np.zeros(len(self.clients)))
        column[index] += value

    def _note_blocks(self, round: int, name: str, index: int, products: Tensor) -> None:
        for block, part in enumerate(products.tensor_split(BLOCKS)):
            self._note(round, f"{name}, block {block}", index, float(part.sum()))

    def _note_report(self, round: int, index: int, report: Tensor) -> None:
        for place, value in enumerate(report.tolist()):
            self._note(round, f"report {place:03d}", index, value)

    def _watched(self, broadcast: Broadcast, cohort: Sequence[int]) -> Iterator[tuple[list[int], Taps]]:
        """The cohort in parts, each with what the adversary looks at."""
        yield list(cohort), NO_TAPS

    def _starts(self, broadcast: Broadcast, starts: Starts | None) -> Starts | None:
        return starts

    def _noisy(self, broadcast: Broadcast, upload: Upload) -> Iterator[tuple[Place, Tensor]]:
        """What carries noise in what is seen of a client `[P]`: nothing, for whoever sees models only."""
        yield from ()

    def _read(self, broadcast: Broadcast, upload: Upload, index: int) -> None:
        """Add to the score and the readings of a canary what its client sent."""


def example_factors(method: Method, round: int) -> tuple[Factors | None, float]:
    """The clipping of examples in a round, and its bound (1 where there is none)."""
    if method.example is None:
        return None, 1.0
    mechanism = method.example.at(round, method.rounds)
    return mechanism.factors, mechanism.bound


def both(gradients: Gradients, parameters: Tensor, records: Records, factors: Factors | None) -> tuple[Tensor, Tensor]:
    """What the canaries and their stand-ins add to a sum, `[m, P]` each."""
    inside, outside = (clipped_gradients(gradients, parameters, r, factors) for r in (records.inside, records.outside))
    return inside, outside


def update_bound(method: Method, broadcast: Broadcast) -> float:
    """C of the first clip that a whole update meets; 1 where there is none."""
    mechanism = method.upload or method.server
    return 1.0 if mechanism is None else mechanism.at(broadcast.round, method.rounds, broadcast.bound).bound


def signs(coins: Coins, opposite: bool) -> list[float]:
    """A canary that is out contributes nothing or, where one client is replaced by another, the opposite."""
    return [1.0 if coin else -1.0 if opposite else 0.0 for coin in coins]


def moved_starts(broadcast: Broadcast, starts: Starts | None, moves: dict[int, Tensor]) -> Starts:
    """Canary clients start where `moves` puts them; all others where they would."""

    def starting(members: Sequence[int]) -> Tensor:
        usual = broadcast.parameters.expand(len(members), -1) if starts is None else starts(members)
        rows = [broadcast.parameters + moves[c] if c in moves else usual[k] for k, c in enumerate(members)]
        return torch.stack(rows)

    return starting
