"""Whoever sees the published models only: what each differs from the last by, taken apart into the canaries' parts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from fedveil.attacks.audit.bounds import Coins, Readings
from fedveil.attacks.audit.canaries import Records, canary_directions, clipped_sum, others
from fedveil.attacks.audit.server_noise import ServerNoise, server_noise
from fedveil.attacks.audit.watching import (
    Watcher,
    both,
    example_factors,
    moved_starts,
    signs,
    update_bound,
)
from fedveil.attacks.audit.watching_clients import FAR
from fedveil.core.parameters import Layout
from fedveil.core.types import Population
from fedveil.engine.client import Broadcast, Upload
from fedveil.engine.gradients import Gradients
from fedveil.engine.loop import Closed
from fedveil.engine.personal_models import Starts
from fedveil.engine.server_state import ServerState
from fedveil.engine.sites import Sites

MOST_UPDATES = 2**27
"""Numbers of a round's updates that are held at a time to read off the server's noise; of more it is not read."""

RIDGE = 0.1
"""How much of the directions' own length steadies the separation of canaries that point into similar directions."""


@dataclass(kw_only=True)
class InModels(Watcher):
    """`released`. Beside the adversary's scores it keeps who was drawn in each round, and the server's own noise."""

    population: Population
    layout: Layout
    cohorts: list[tuple[int, ...]] = field(init=False, default_factory=list)
    server_noise: list[ServerNoise] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._updates: list[Tensor] = []

    def _look(self, broadcast: Broadcast, upload: Upload) -> None:
        super()._look(broadcast, upload)
        if self.method.server is not None and (len(self._updates) + 1) * len(upload.update) <= MOST_UPDATES:
            self._updates.append(upload.update)

    def published(self, before: ServerState, closed: Closed) -> None:
        self.cohorts.append(closed.cohort)
        noise = server_noise(self.method, self.population, self.layout, before, closed, self._updates)
        self.server_noise += [] if noise is None else [noise]
        self._updates = []
        difference = closed.state.parameters - before.parameters
        shares = self._shares(before, difference)
        self._scores += shares
        for index, share in enumerate(shares):
            self._note(before.round, "own", index, float(share))

    def _shares(self, before: ServerState, difference: Tensor) -> Readings:
        """How much of each canary is in what a model differs from the one before it by."""
        raise NotImplementedError


@dataclass(kw_only=True)
class RecordInModels(InModels):
    """Records, by their own gradients.

    The adversary knows all other records, not which of them were drawn: the direction into which they push the model
    together is taken off first.
    """

    gradients: Gradients
    records: Records
    sites: Sites

    def _shares(self, before: ServerState, difference: Tensor) -> Readings:
        factors, bound = example_factors(self.method, before.round)
        inside, outside = both(self.gradients, before.parameters, self.records, factors)
        rest = others(self.sites, self.clients)
        pushed = clipped_sum(self.gradients, before.parameters, self.sites.examples, rest, factors)
        known = torch.nn.functional.normalize(pushed, dim=0)
        ways = outside.sub_(inside).div_(bound)
        ways.addr_(ways @ known, known, alpha=-1)
        return separated(ways, difference - (difference @ known) * known)


@dataclass(kw_only=True)
class ClientInModels(InModels):
    """Canary clients, each with a direction of its own in every round.

    The last difference, along this round's directions, shows its noise: if this round has the same, the two together
    show the canaries without any.
    """

    seed: int
    coins: Coins
    opposite: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        self._drawn: tuple[int, Tensor] | None = None
        self._last: Tensor | None = None

    def directions(self, round: int) -> Tensor:
        """`[m, P]`; those of one round are held at a time."""
        if self._drawn is None or self._drawn[0] != round:
            generator = np.random.default_rng((self.seed, round))
            self._drawn = round, canary_directions(self.layout, len(self.clients), generator)
        return self._drawn[1]

    def _starts(self, broadcast: Broadcast, starts: Starts | None) -> Starts | None:
        far, factors = FAR * update_bound(self.method, broadcast), signs(self.coins, self.opposite)
        ways = self.directions(broadcast.round)
        return moved_starts(broadcast, starts, {c: far * factors[i] * ways[i] for c, i in self._canary.items()})

    def _shares(self, before: ServerState, difference: Tensor) -> Readings:
        ways = self.directions(before.round)
        if self._last is not None:
            for index, share in enumerate(separated(ways, self._last)):
                self._note(before.round, "last", index, float(share))
        self._last = difference
        return separated(ways, difference)


def separated(directions: Tensor, difference: Tensor) -> Readings:
    """How much of each direction `[m, P]` is in a difference `[P]`, the others' part taken off (ridge regression)."""
    overlaps = (directions @ directions.T).double()
    steady = RIDGE * overlaps.diagonal().mean().clamp_min(1e-30) * torch.eye(len(overlaps), dtype=torch.float64)
    shares: Readings = torch.linalg.solve(overlaps + steady, (directions @ difference).double()).numpy()
    return shares
