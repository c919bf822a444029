"""Many clients at once in one process: the client's function over chunks of alike clients."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedveil.core.streams import Streams
from fedveil.core.types import Taps
from fedveil.data.dataset import Examples, to_float
from fedveil.engine.client import NO_TAPS, Broadcast, Uploads, joined, local_work
from fedveil.engine.fused import Fused
from fedveil.engine.general import General
from fedveil.engine.gradients import Gradients
from fedveil.engine.sites import Sites
from fedveil.mechanisms.noise import NoiseSource
from fedveil.method import Method

EVALUATION_SLICE = 1000
"""Records evaluated at a time: fixed, so that sums of losses do not depend on the number of workers."""

GENERAL_CHUNK_FLOATS = 8_000_000
"""Per-example gradients that the general path may hold at a time."""

GENERAL_TILE = 16
"""Clients side by side on the general path: most of the gain, little waste on small cohorts."""


def choose(model: nn.Module, input_shape: Sequence[int]) -> Gradients:
    """The fastest implementation that knows every part of the model."""
    return Fused.build(model, tuple(input_shape)) or General(model)


@dataclass(frozen=True)
class Chunking:
    """Chunks of about `clients` clients, in multiples of `tile`.

    Vectorised code rounds differently for different numbers of clients, so the general path always computes tiles of
    the same size; with chunks cut at multiples of it, a client's result does not depend on the chunk it is in.
    """

    tile: int
    clients: int


@dataclass(frozen=True)
class Evaluation:
    """Sums over examples, so that slices can be added up."""

    records: int
    correct: int
    loss: float

    @staticmethod
    def total(parts: Iterable[Evaluation]) -> Evaluation:
        parts = list(parts)
        return Evaluation(
            sum(part.records for part in parts),
            sum(part.correct for part in parts),
            sum(part.loss for part in parts),
        )

    @property
    def accuracy(self) -> float:
        return self.correct / self.records if self.records else float("nan")

    @property
    def mean_loss(self) -> float:
        return self.loss / self.records if self.records else float("nan")


class Engine:
    """Everything one process needs to do clients' work: the method, the network, the records and the streams.

    What a client computes depends on the round and its place in the cohort, never on the chunk it is in.
    """

    def __init__(
        self,
        method: Method,
        model: nn.Module,
        sites: Sites,
        validation: Examples,
        streams: Streams,
        gradients: Gradients | None = None,
    ) -> None:
        self._method, self._model, self._sites, self._validation = method, model, sites, validation
        self._streams, self._noise = streams, NoiseSource(streams)
        self.gradients = gradients or choose(model, sites.examples.inputs.shape[1:])

    @property
    def plan(self) -> Chunking:
        """How to cut a cohort into chunks."""
        slots = self._method.batch.slots(max(self._sites.sizes))
        if isinstance(self.gradients, Fused):
            return Chunking(tile=1, clients=self.gradients.recommended_clients(slots))
        expected = math.ceil(self._method.cohort.divisor(len(self._sites.sizes)))
        memory = GENERAL_CHUNK_FLOATS // (slots * self.gradients.layout.size)
        tile = max(min(memory, GENERAL_TILE, expected), 1)
        return Chunking(tile=tile, clients=tile)

    def train(self, broadcast: Broadcast, clients: Sequence[int], taps: Taps = NO_TAPS) -> Uploads:
        """The uploads of `clients`, who must be alike (see `alike`), in their order."""
        tile = self.plan.tile
        if tile == 1:
            return self._work(broadcast, clients, taps)
        parts = [clients[first : first + tile] for first in range(0, len(clients), tile)]
        return joined([self._padded_work(broadcast, part, tile, taps) for part in parts])

    def _work(self, broadcast: Broadcast, clients: Sequence[int], taps: Taps) -> Uploads:
        return local_work(
            self._method,
            broadcast,
            self._sites,
            clients,
            gradients=self.gradients,
            streams=self._streams,
            noise=self._noise,
            taps=taps,
        )

    def _padded_work(self, broadcast: Broadcast, clients: Sequence[int], tile: int, taps: Taps) -> Uploads:
        """A full tile, the last client standing in for those that are missing; what they give is dropped."""
        full = [*clients, *[clients[-1]] * (tile - len(clients))]
        return self._work(broadcast, full, taps).first(len(clients))

    @torch.no_grad()
    def evaluate(self, parameters: Tensor, first: int) -> Evaluation:
        """Correct answers and loss on the validation records from `first` on (one slice of them)."""
        records = slice(first, first + EVALUATION_SLICE)
        self.gradients.layout.load(self._model, parameters)
        self._model.eval()
        try:
            logits = self._model(to_float(self._validation.inputs[records]))
        finally:
            self._model.train()
        labels = self._validation.labels[records]
        loss = nn.functional.cross_entropy(logits.double(), labels, reduction="sum")
        return Evaluation(len(labels), int((logits.argmax(dim=1) == labels).sum()), float(loss))


def alike(method: Method, sites: Sites, cohort: Sequence[int]) -> list[list[int]]:
    """The cohort in groups of clients with the same numbers of steps and slots, which can be run side by side."""
    groups: dict[tuple[int, int, int], list[int]] = {}
    for client in cohort:
        groups.setdefault(sites.shape(method, client), []).append(client)
    return list(groups.values())
