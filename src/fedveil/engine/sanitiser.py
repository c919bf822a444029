"""Clipping and noise inside a client's training: each step's sum of gradients, and what receipts say of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedveil.core.parameters import Layout
from fedveil.core.streams import Address
from fedveil.core.types import Declaration, Receipt
from fedveil.engine.gradients import Batch, Factors, Gradients, Sums, WatchedLimit
from fedveil.engine.noise_memory import NoiseMemory
from fedveil.engine.post_processing import agree, trained
from fedveil.engine.sites import Draws, Sites
from fedveil.engine.witness import STEPS_READ_TOGETHER, Witness, looked_at, rows_confirmed, within_bound
from fedveil.mechanisms.arithmetic import LONG_SUM, block_size, margin
from fedveil.mechanisms.gaussian import GaussianRound, whole_cells
from fedveil.mechanisms.noise import NoiseSource, grid_width
from fedveil.method import Method

NUMBERS_TOGETHER = 2**20
"""Numbers of records and of their gradients that are worked on at a time, where a sum has very many blocks."""


def rounding_margin(method: Method, round: int, slots: int, declared: float, layout: Layout) -> float:
    """What rounding takes off the clip of a batch of so many slots; refused where that would be too much."""
    assert method.example is not None
    multiplier = method.example.at(round, method.rounds).multiplier(declared, layout.group_count)
    return margin(rows=slots, chain=block_size(slots), size=layout.size, multiplier=multiplier)


def check_rounding(method: Method, sites: Sites, layout: Layout) -> None:
    """Refuse a training whose steps would be refused, before anything is promised or paid for."""
    if method.example is not None:
        for records in set(sites.sizes):
            slots, declared = method.batch.slots(records), method.batch.declared(records)
            for round in {0, method.rounds - 1}:
                rounding_margin(method, round, slots, declared, layout)


class Sanitiser:
    """Clips and noises the steps of one round and watches what becomes the receipts."""

    def __init__(
        self,
        method: Method,
        round: int,
        clients: Sequence[int],
        draws: Draws,
        layout: Layout,
        memory: NoiseMemory,
    ) -> None:
        assert method.example is not None
        self._method, self._round, self._batch, self._layout = method, round, draws.declared, layout
        mechanism: GaussianRound = method.example.at(round, method.rounds)
        self._mechanism, self._clients, self._records = mechanism, clients, draws.records
        self._slots, self._draws = draws.slots, 0
        self._followed = [False] * len(clients)
        self._unread: list[tuple[Tensor, Tensor]] = []  # norms and factors of the last steps
        self._keeps_cells = method.sends_plain_steps and draws.steps == 1
        self.cells: Tensor | None = None  # [K, P]: the noisy sums as integers, where updates are just added
        below = rounding_margin(method, round, draws.slots, draws.declared, layout)
        self.factors = WatchedLimit(mechanism.limit(below), self._watch)
        declared = [self._declare(held, draws.steps) for held in draws.records]
        self._declared = declared[0]  # but for the number of records that of all
        self._witness = Witness(layout, self._declared.sum_std, round=round, steps=draws.steps, memory=memory)
        # Whether no sum and no row was longer than the clip allows, and batches were drawn as declared.
        self._bounded = memory.confirms_batches(
            draws.positions, draws.counts, [each.sampling for each in declared], [(client, round) for client in clients]
        )

    def _declare(self, held: int, steps: int) -> Declaration:
        """What so many steps do to a client that holds so many records."""
        sampling = self._method.batch.sampling(held, steps)
        return self._mechanism.declare(place="example", layers=self._layout.group_count, steps=steps, sampling=sampling)

    def _watch(self, norms: Tensor, factors: Tensor) -> None:
        """Remember what rows with these norms `[K, B, M]` were multiplied with."""
        self._unread.append((norms, factors))
        if len(self._unread) == STEPS_READ_TOGETHER:
            self._read_factors()

    def _read_factors(self) -> None:
        """Look at the factors of the last steps, all at once: many small operations cost more than a few large ones."""
        if self._unread:
            norms, factors = (
                torch.cat([part.flatten(end_dim=-2) for part in parts]) for parts in zip(*self._unread, strict=True)
            )
            self._bounded &= within_bound(norms, factors, self._declared.sensitivity)
            self._unread = []

    def noised_sums(self, sums: Tensor, noise: NoiseSource, addresses: Sequence[Address]) -> Tensor:
        """Noise on the clipped sums `[K, P]`, in place; where its integers are kept, in double precision."""
        sums = sums.double() if self._keeps_cells else sums
        if self._witness.measures_lengths:
            most = self._slots * self._declared.sensitivity
            self._bounded &= bool((torch.linalg.vector_norm(sums, dim=-1) <= most * (1 + 1e-3)).all())
        self._bounded &= self._declared.row_std == 0  # else the rows would have to carry their own
        seen = self._witness.before(sums)
        self._mechanism.add_to_sums(sums, rows=self._batch, source=noise, addresses=addresses)
        self._witness.after(seen, sums)
        self._draws += sums.shape[-1] if self._mechanism.sigma > 0 else 0
        if self._keeps_cells:
            self.cells = whole_cells(sums, self._declared.sum_std)
        return sums

    def noised_rows(self, rows: Tensor, noise: NoiseSource, addresses: Sequence[Address]) -> Tensor:
        """Noise on every clipped row `[K, B, P]`, in place; their sums `[K, P]` carry the declared noise."""
        before, seen = rows.clone(), self._witness.before(rows.double().sum(dim=1))
        sums = self._mechanism.add_to_rows(rows, source=noise, addresses=addresses)
        self._witness.after(seen, sums, grid_width(self._mechanism.row_std))
        self._bounded &= rows_confirmed(before, rows, sums, self._declared.row_std, looked_at(self._layout))
        self._draws += rows.shape[1] * rows.shape[2] if self._mechanism.sigma > 0 else 0
        return sums

    @property
    def noises_rows(self) -> bool:
        """Whether every row gets its own noise, before the rows are added up."""
        return self._mechanism.each_row

    def follow(self, start: Tensor, parameters: Tensor, rate: float) -> None:
        """Look at the parameters `[K, P]` that training from `start` led to: they must follow from the noisy sums."""
        places = looked_at(self._layout)
        began = start[:, places]
        declared, steps = self._declared.sampling.batch, self._witness.steps
        expected, largest = trained(self._method.local, began, self._witness.kept, rate, declared)
        self._followed = agree(expected, parameters[:, places], began, steps, largest).tolist()

    def receipts(self) -> tuple[Receipt, ...]:
        """What was done to each of the clients, from what was executed: one receipt each, in their order."""
        self._read_factors()
        steps = self._witness.steps
        confirmed = zip(self._witness.confirmed(self._clients), self._followed, strict=True)
        return tuple(
            Receipt(self._round, client, self._declare(held, steps), noise and followed and self._bounded, self._draws)
            for client, held, (noise, followed) in zip(self._clients, self._records, confirmed, strict=True)
        )


def summed_in_blocks(gradients: Gradients, parameters: Tensor, batch: Batch, factors: Factors) -> Sums:
    """The sum of a batch's scaled gradients, short blocks of them in single precision, these in double precision.

    Long chains of additions in single precision would cost too much of the clip (`mechanisms/arithmetic.py`).
    """
    slots = batch.labels.shape[1]
    size = block_size(slots)
    if size == slots:
        return gradients.sums(parameters, batch, factors)
    count, device = len(parameters), parameters.device
    total = torch.zeros(parameters.shape, dtype=torch.float64, device=device)
    losses, rejected = torch.zeros(count, device=device), torch.zeros(count, dtype=torch.int64, device=device)
    norms = []
    numbers = len(parameters) * size * (parameters.shape[1] + batch.inputs[0, 0].numel())
    together = max(NUMBERS_TOGETHER // numbers, 1) if slots > LONG_SUM else 1
    first = 0
    while first < slots:
        blocks = max(min(together, (slots - first) // size), 1)
        block = _blocks_as_clients(batch, slice(first, first + blocks * size), blocks)
        own = parameters if blocks == 1 else parameters.repeat_interleave(blocks, dim=0)
        sums = gradients.sums(own, block, factors)
        total += sums.total.view(count, blocks, -1).sum(dim=1, dtype=torch.float64)
        losses += sums.losses.view(count, blocks).sum(dim=1)
        rejected += sums.rejected.view(count, blocks).sum(dim=1)
        if sums.norms is not None:
            norms.append(sums.norms.view(count, -1, sums.norms.shape[-1]))
        first += blocks * size
    return Sums(total, losses, torch.cat(norms, dim=1) if norms else None, rejected)


def _blocks_as_clients(batch: Batch, part: slice, blocks: int) -> Batch:
    """Some of the clients' slots, in blocks side by side as if each were a client: the same bits in fewer calls."""
    count = len(batch.labels)
    inputs, labels, weights = batch.inputs[:, part], batch.labels[:, part], batch.weights[:, part]
    size = labels.shape[1] // blocks
    starts = range(part.start, part.start + blocks * size, size)
    seeds = None  # random layers differ from block to block
    if batch.seeds is not None:
        seeds = tuple(seed ^ first for seed in batch.seeds for first in starts)
    inputs = inputs.reshape(count * blocks, size, *inputs.shape[2:])
    return Batch(inputs, labels.reshape(count * blocks, size), weights.reshape(count * blocks, size), seeds)
