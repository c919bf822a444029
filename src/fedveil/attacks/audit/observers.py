"""What an adversary makes of its view: one score per canary, from the very tensors that the engine produced.

A watcher stands where the training loop expects its runtime. It hands every call on to the real one, asks for the view
that is audited, scores what comes back, and passes the uploads on. Nothing of training, clipping or noise is repeated
here; the adversary only computes what a canary's own gradient would be, with the engine's gradients, as any adversary
who knows the canary and the public model can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from fedveil.attacks.audit.bounds import Coins, Scores
from fedveil.attacks.audit.canaries import Records, clipped_gradients, clipped_sum, others
from fedveil.core.streams import Streams
from fedveil.core.types import Observation, Taps, View
from fedveil.engine.batched import Evaluation
from fedveil.engine.client import NO_TAPS, Broadcast, Upload
from fedveil.engine.gradients import Factors, Gradients
from fedveil.engine.loop import Runtime
from fedveil.engine.personal_models import Starts
from fedveil.engine.server import ServerState
from fedveil.engine.sites import Sites
from fedveil.method import Method

FAR = 10.0
"""How many clipping bounds a canary client's update is long."""

RIDGE = 0.1
"""How much of the directions' own length steadies the separation of canaries that point into similar directions."""


@dataclass
class Watcher:
    """A runtime that only watches; `scores[i]` is of the canary in client `clients[i]`."""

    runtime: Runtime
    method: Method
    clients: tuple[int, ...]
    scores: Scores = field(init=False)

    def __post_init__(self) -> None:
        self.scores = np.zeros(len(self.clients))
        self._canary = {client: index for index, client in enumerate(self.clients)}

    def train(
        self, broadcast: Broadcast, cohort: Sequence[int], taps: Taps, starts: Starts | None = None
    ) -> Iterator[Upload]:
        for members, wanted in self._watched(broadcast, cohort):
            for upload in self.runtime.train(broadcast, members, wanted, self._starts(broadcast, starts)):
                if upload.client in self._canary:
                    for observation in upload.observations:
                        self.scores[self._canary[upload.client]] += self._score(broadcast, observation)
                yield replace(upload, observations=())

    def evaluate(self, state: ServerState) -> Evaluation:
        return self.runtime.evaluate(state)

    def published(self, before: Tensor, after: ServerState) -> None:
        """A new model is out. Only whoever sees nothing else looks at it."""

    def _watched(self, broadcast: Broadcast, cohort: Sequence[int]) -> Iterator[tuple[list[int], Taps]]:
        """The cohort in parts, each with what the adversary looks at."""
        yield list(cohort), NO_TAPS

    def _starts(self, broadcast: Broadcast, starts: Starts | None) -> Starts | None:
        return starts

    def _score(self, broadcast: Broadcast, observation: Observation) -> float:
        """What an observation adds to its canary's score. Whoever sees models only taps nothing and is never asked."""
        raise AssertionError(f"{type(self).__name__} taps clients' work and has no score for it")

    def example_factors(self, round: int) -> tuple[Factors | None, float]:
        """The clipping of examples in a round, and its bound (1 where there is none)."""
        if self.method.example is None:
            return None, 1.0
        mechanism = self.method.example.at(round, self.method.rounds)
        return mechanism.factors, mechanism.bound


@dataclass
class RecordInUpdate(Watcher):
    """`client` and `server`: the update, along the difference that the canary makes to the first step's sum."""

    view: View
    gradients: Gradients
    records: Records

    def _watched(self, broadcast: Broadcast, cohort: Sequence[int]) -> Iterator[tuple[list[int], Taps]]:
        factors, self._bound = self.example_factors(broadcast.round)
        inside, outside = both(self.gradients, broadcast.parameters, self.records, factors)
        self._direction = torch.nn.functional.normalize(inside[0] - outside[0], dim=0)
        yield list(cohort), Taps(frozenset({self.view}))

    def _score(self, broadcast: Broadcast, observation: Observation) -> float:
        moved = observation.tensors - (observation.start - broadcast.parameters)  # training walks against gradients
        return -float(moved @ self._direction) / self._bound


@dataclass
class RecordOnDevice(Watcher):
    """`on_device`: the canary's own noisy gradient, whenever it is used, against what it would be without noise.

    Which records a batch holds is in plain sight there. The score is the log-likelihood ratio up to the noise's scale.
    """

    gradients: Gradients
    records: Records
    sites: Sites
    streams: Streams

    def _watched(self, broadcast: Broadcast, cohort: Sequence[int]) -> Iterator[tuple[list[int], Taps]]:
        self._slots: dict[tuple[int, int], list[int]] = {}
        by_steps: dict[frozenset[int], list[int]] = {}
        for client in cohort:
            by_steps.setdefault(self._uses(broadcast.round, client), []).append(client)
        for steps, members in by_steps.items():
            yield members, Taps(frozenset({View.ON_DEVICE}), steps) if steps else NO_TAPS

    def _uses(self, round: int, client: int) -> frozenset[int]:
        """The steps in which a canary is used; its slots are noted."""
        if client not in self._canary:
            return frozenset()
        draws = self.sites.draw(self.method, round, [client], self.streams)
        filled = torch.arange(draws.indices.shape[2]) < draws.counts[0, :, None]
        used = (draws.indices[0] == self.sites.members(client)[0]) & filled
        for step, slot in used.nonzero().tolist():
            self._slots.setdefault((client, step), []).append(slot)
        return frozenset(used.any(dim=1).nonzero().flatten().tolist())

    def _score(self, broadcast: Broadcast, observation: Observation) -> float:
        assert observation.step is not None
        factors, bound = self.example_factors(broadcast.round)
        inside, outside = both(self.gradients, observation.start, self.records, factors)
        middle, difference = (inside[0] + outside[0]) / 2, inside[0] - outside[0]
        slots = self._slots[observation.client, observation.step]
        return sum(float((observation.tensors[slot] - middle) @ difference) for slot in slots) / bound**2


@dataclass
class ClientInUpdate(Watcher):
    """`client` and `server`, for canary clients that all go into one direction if they are in."""

    view: View
    direction: Tensor
    coins: Coins
    opposite: bool

    def _watched(self, broadcast: Broadcast, cohort: Sequence[int]) -> Iterator[tuple[list[int], Taps]]:
        self._bound = update_bound(self.method, broadcast)
        yield list(cohort), Taps(frozenset({self.view}))

    def _starts(self, broadcast: Broadcast, starts: Starts | None) -> Starts | None:
        far = FAR * update_bound(self.method, broadcast) * self.direction
        return moved_starts(
            broadcast, starts, {c: far * sign_of(self.coins[i], self.opposite) for c, i in self._canary.items()}
        )

    def _score(self, broadcast: Broadcast, observation: Observation) -> float:
        return float(observation.tensors @ self.direction) / self._bound


@dataclass
class RecordInModels(Watcher):
    """`released`: every published model's difference to the last, taken apart into the canaries' own gradients.

    The adversary knows all other records, not which of them were drawn: the direction into which they push the model
    together is taken off first.
    """

    gradients: Gradients
    records: Records
    sites: Sites

    def published(self, before: Tensor, after: ServerState) -> None:
        factors, bound = self.example_factors(after.round - 1)
        inside, outside = both(self.gradients, before, self.records, factors)
        rest = others(self.sites, self.clients)
        pushed = clipped_sum(self.gradients, before, self.sites.examples, rest, factors)
        known = torch.nn.functional.normalize(pushed, dim=0)
        ways, difference = outside.sub_(inside).div_(bound), after.parameters - before
        ways.addr_(ways @ known, known, alpha=-1)
        self.scores += separated(ways, difference - (difference @ known) * known)


@dataclass
class ClientInModels(Watcher):
    """`released`, for canary clients with a direction `[m, P]` each."""

    directions: Tensor
    coins: Coins
    opposite: bool

    def _starts(self, broadcast: Broadcast, starts: Starts | None) -> Starts | None:
        far = FAR * update_bound(self.method, broadcast)
        moves = {c: far * sign_of(self.coins[i], self.opposite) * self.directions[i] for c, i in self._canary.items()}
        return moved_starts(broadcast, starts, moves)

    def published(self, before: Tensor, after: ServerState) -> None:
        self.scores += separated(self.directions, after.parameters - before)


def both(gradients: Gradients, parameters: Tensor, records: Records, factors: Factors | None) -> tuple[Tensor, Tensor]:
    """What the canaries and their stand-ins add to a sum, `[m, P]` each."""
    inside, outside = (clipped_gradients(gradients, parameters, r, factors) for r in (records.inside, records.outside))
    return inside, outside


def update_bound(method: Method, broadcast: Broadcast) -> float:
    """C of the first clip that a whole update meets; 1 where there is none."""
    mechanism = method.upload or method.server
    return 1.0 if mechanism is None else mechanism.at(broadcast.round, method.rounds, broadcast.bound).bound


def sign_of(coin: bool, opposite: bool) -> float:
    """A canary that is out contributes nothing or, where one client is replaced by another, the opposite."""
    return 1.0 if coin else -1.0 if opposite else 0.0


def moved_starts(broadcast: Broadcast, starts: Starts | None, moves: dict[int, Tensor]) -> Starts:
    """Canary clients start where `moves` puts them; all others where they would."""

    def starting(members: Sequence[int]) -> Tensor:
        usual = broadcast.parameters.expand(len(members), -1) if starts is None else starts(members)
        rows = [broadcast.parameters + moves[c] if c in moves else usual[k] for k, c in enumerate(members)]
        return torch.stack(rows)

    return starting


def separated(directions: Tensor, difference: Tensor) -> Scores:
    """How much of each direction `[m, P]` is in a difference `[P]`, the others' part taken off (ridge regression)."""
    overlaps = (directions @ directions.T).double()
    steady = RIDGE * overlaps.diagonal().mean().clamp_min(1e-30) * torch.eye(len(overlaps), dtype=torch.float64)
    shares: Scores = torch.linalg.solve(overlaps + steady, (directions @ difference).double()).numpy()
    return shares
