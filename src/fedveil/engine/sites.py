"""The clients' records as this process holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from fedveil.core.errors import FedveilError
from fedveil.core.streams import Address, Purpose, Streams
from fedveil.core.types import Population
from fedveil.data.dataset import Examples, to_float
from fedveil.data.row_lists import RowLists
from fedveil.engine.gradients import Batch
from fedveil.method import VARYING_BATCHES, Method

FETCHED_TOGETHER = 1 << 15
"""So many numbers of records are fetched at once, about, where a step has fewer: few large operations are faster than
many small ones, but what a core's own cache has no room for is fetched twice."""


@dataclass(frozen=True)
class Draws:
    """The batches of one round for K alike clients: indices `[K, steps, slots]` into the examples.

    `order` `[K, steps, slots]` says which of them goes to which slot of the computation, where batches vary in size.
    """

    indices: Tensor
    positions: Tensor  # the same, into each client's own records
    counts: Tensor  # [K, steps] how many of the indices are meant, from the left
    declared: int  # B, the constant that divisors and noise use
    records: tuple[int, ...]  # N_i of each client
    order: Tensor | None = None

    @cached_property
    def by_step(self) -> tuple[Tensor, Tensor]:
        """For every step the index in each slot, and whether it is meant, 1 or 0: `[steps, K, slots]`."""
        filled = torch.arange(self.slots, device="cpu") < self.counts.unsqueeze(-1)
        tables = (self.indices, filled.to(torch.float32))
        if self.order is not None:
            tables = (tables[0].gather(2, self.order), tables[1].gather(2, self.order))
        return tables[0].transpose(0, 1).contiguous(), tables[1].transpose(0, 1).contiguous()

    @property
    def steps(self) -> int:
        return self.indices.shape[1]

    @property
    def slots(self) -> int:
        return self.indices.shape[2]


@dataclass(frozen=True)
class Sites:
    """Clients' records: the client at place `i` holds `sizes[i]` of the examples; `indices` has client after client.

    A client's number, which its streams, charges and receipts carry, is its place; a real site holds one client's
    records alone, and `first` is that client's number in the federation.
    """

    examples: Examples
    indices: Tensor
    sizes: tuple[int, ...]
    names: tuple[str, ...] = ()
    first: int = 0

    @staticmethod
    def of(examples: Examples, members: RowLists, names: tuple[str, ...] = ()) -> Sites:
        """`members[i]` are the indices of client `i` into the examples."""
        return Sites(examples, torch.from_numpy(members.rows), members.sizes, names)

    @staticmethod
    def alone(examples: Examples, number: int) -> Sites:
        """All the examples are those of one client, which has this number among all."""
        return Sites(examples, torch.arange(len(examples)), (len(examples),), first=number)

    @cached_property
    def population(self) -> Population:
        return Population(self.sizes, self.names)

    @cached_property
    def _offsets(self) -> tuple[int, ...]:
        return (0, *accumulate(self.sizes))

    def held(self, client: int) -> int:
        """How many records a client holds."""
        return self.sizes[self._place(client)]

    def _place(self, client: int) -> int:
        if not self.first <= client < self.first + len(self.sizes):
            raise FedveilError(f"the records of client {client} are not here")
        return client - self.first

    def members(self, client: int) -> Tensor:
        """The indices of one client's records."""
        place = self._place(client)
        return self.indices[self._offsets[place] : self._offsets[place + 1]].long()

    def shape(self, method: Method, client: int) -> tuple[int, int, int]:
        """(steps, slots, declared batch size): clients of the same shape can be run side by side."""
        records = self.held(client)
        return method.local_steps(records), method.batch.slots(records), method.batch.declared(records)

    def draw(self, method: Method, round: int, clients: Sequence[int], streams: Streams) -> Draws:
        """Each client draws its batches from its own stream."""
        steps, _, declared = self.shape(method, clients[0])
        indices, positions, counts, orders = [], [], [], []
        for client in clients:
            generator = streams.generator(Purpose.BATCH, Address(round, client))
            draw = method.batch.draw(self.held(client), steps, generator)
            positions.append(torch.from_numpy(draw.positions))
            indices.append(self.members(client)[positions[-1]])
            counts.append(torch.from_numpy(np.ascontiguousarray(draw.counts)))
            if method.batch.kind in VARYING_BATCHES:
                slots = np.tile(np.arange(draw.positions.shape[1]), (steps, 1))
                orders.append(torch.from_numpy(generator.permuted(slots, axis=1)))
        return Draws(
            indices=torch.stack(indices),
            positions=torch.stack(positions),
            counts=torch.stack(counts),
            declared=declared,
            records=tuple(self.held(client) for client in clients),
            order=torch.stack(orders) if orders else None,
        )

    def batches(self, draws: Draws) -> Batches:
        """The batches of a round, step by step."""
        return Batches(self.examples, draws)


class Batches:
    """The batches of a round, for steps one after another; the records of a few steps are fetched at once.

    Where batches vary in size their records sit in random slots. A record more or less then moves no other one to
    another slot (in distribution), where the same arithmetic might round its gradient differently.
    """

    def __init__(self, examples: Examples, draws: Draws) -> None:
        self._examples, self._draws = examples, draws
        numbers = draws.indices[:, 0].numel() * max(examples.inputs[:1].numel(), 1)
        self._together = max(FETCHED_TOGETHER // numbers, 1)
        self._fetched: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def at(self, step: int, seeds: tuple[int, ...] | None = None) -> Batch:
        """Step `step` of every client as tensors."""
        if step not in self._fetched:
            self._fetched = self._fetch(slice(step, step + self._together))
        return Batch(*self._fetched[step], seeds)

    def _fetch(self, steps: slice) -> dict[int, tuple[Tensor, Tensor, Tensor]]:
        """Inputs, labels and weights of these steps."""
        indices, weights = (table[steps] for table in self._draws.by_step)
        device = self._examples.inputs.device
        flat = indices.flatten().to(device)
        inputs = to_float(self._examples.inputs.index_select(0, flat))
        labels = self._examples.labels.index_select(0, flat)
        parts = inputs.view(*indices.shape, *inputs.shape[1:]), labels.view(indices.shape), weights.to(device)
        return dict(enumerate(zip(*(part.unbind(0) for part in parts), strict=True), steps.start))
