"""The server's side of a round, as pure functions: open it, add up what arrives, close it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedveil.core.streams import Address, Purpose, Streams
from fedveil.core.types import Population, Receipt
from fedveil.engine.client import Broadcast, Uploads
from fedveil.method import Method
from fedveil.parts.optimisers import State


@dataclass(frozen=True)
class ServerState:
    """All that the next round depends on; a checkpoint holds exactly this."""

    round: int  # rounds completed
    parameters: Tensor  # [P]
    optimiser: State


def initial_state(method: Method, parameters: Tensor) -> ServerState:
    return ServerState(0, parameters, method.aggregate.optimiser.initial(parameters))


def open_round(
    method: Method, state: ServerState, candidates: Sequence[int], streams: Streams
) -> tuple[list[int], Broadcast]:
    """Who of the candidates takes part, and what they are sent."""
    generator = streams.generator(Purpose.COHORT, Address(state.round))
    return method.cohort.draw(candidates, generator), Broadcast(state.round, state.parameters)


@dataclass
class Tally:
    """Adds up a round's uploads one client after another.

    Uploads come in an order that the cohort fixes, so the sum does not depend on how clients were chunked; double
    precision keeps it from drowning small updates.
    """

    size: int
    layers: int
    total: Tensor = field(init=False)
    receipts: list[Receipt] = field(default_factory=list)
    update_norms: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    rejected: int = 0
    rejected_updates: int = 0
    clients: int = 0

    def __post_init__(self) -> None:
        self.total = torch.zeros(self.size, dtype=torch.float64)
        self._layer_norms = torch.zeros(self.layers, dtype=torch.float64)

    def add(self, uploads: Uploads) -> None:
        for update, norm in zip(uploads.updates, uploads.updates.norm(dim=-1).tolist(), strict=True):
            if math.isfinite(norm):
                self.total += update
                self.update_norms.append(norm)
            else:  # a client whose training diverged contributes zero; the divisor stays what it is
                self.rejected_updates += 1
        self.receipts += uploads.receipts
        self.losses += uploads.statistics.losses.tolist()
        for norms in uploads.statistics.norms:
            self._layer_norms += norms
        self.rejected += int(uploads.statistics.rejected.sum())
        self.clients += len(uploads.clients)

    @property
    def layer_norms(self) -> list[float]:
        """Mean gradient norm of each layer before clipping."""
        return [float(norm) for norm in self._layer_norms / max(self.clients, 1)]


def close_round(method: Method, state: ServerState, tally: Tally, population: Population) -> ServerState:
    """The next model: sum ÷ constant, then the server's optimiser."""
    divisor = method.cohort.divisor(population.clients)
    parameters, optimiser = method.aggregate.apply(
        state.parameters, tally.total, divisor, state.optimiser, state.round, method.rounds
    )
    return ServerState(state.round + 1, parameters, optimiser)
