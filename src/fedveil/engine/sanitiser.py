"""Clipping and noise inside a client's training: each step's sum of gradients, and what receipts say of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedveil.core.parameters import Layout
from fedveil.core.streams import Address
from fedveil.core.types import Receipt
from fedveil.engine.gradients import Batch, Factors, Gradients, Sums
from fedveil.engine.sites import Draws
from fedveil.engine.witness import NoiseMemory, Witness, rows_confirmed, within_bound
from fedveil.mechanisms.arithmetic import block_size, margin
from fedveil.mechanisms.gaussian import GaussianRound
from fedveil.mechanisms.noise import NoiseSource, grid_width
from fedveil.method import Method


class Sanitiser:
    """Clips and noises the steps of one round and watches what becomes the receipts."""

    def __init__(self, method: Method, round: int, draws: Draws, layout: Layout, memory: NoiseMemory) -> None:
        assert method.example is not None
        self._method, self._round, self._batch, self._layout = method, round, draws.declared, layout
        mechanism: GaussianRound = method.example.at(round, method.rounds)
        self._mechanism = mechanism
        self._most = draws.slots * mechanism.clip.sensitivity(mechanism.bound, layout.group_count)
        self._margin = margin(
            rows=draws.slots,
            chain=block_size(draws.slots),
            size=layout.size,
            multiplier=mechanism.multiplier(draws.declared, layout.group_count),
        )
        self._draws = 0
        declared = mechanism.sum_std(draws.declared)
        self._witness = Witness(layout, declared, round=round, steps=draws.steps, memory=memory)
        self._bounded = True  # no sum and no row was longer than the clip allows
        if method.batch.kind == "poisson":
            self._bounded = memory.confirms_batches(draws.counts, draws.records, draws.declared)

    def factors(self, norms: Tensor) -> Tensor:
        """What rows with these norms `[K, B, M]` are multiplied with."""
        factors = self._mechanism.factors(norms, self._margin)
        by_layer = self._mechanism.clip.by == "layer"
        self._bounded &= within_bound(norms, factors, self._mechanism.bound, by_layer=by_layer)
        return factors

    def noised_sums(self, sums: Tensor, noise: NoiseSource, addresses: list[Address]) -> Tensor:
        """Noise on the clipped sums `[K, P]`, in place."""
        if self._witness.steps == 0:
            self._bounded &= bool((torch.linalg.vector_norm(sums, dim=-1) <= self._most * (1 + 1e-3)).all())
        seen = self._witness.before(sums)
        self._mechanism.add_to_sums(sums, rows=self._batch, source=noise, addresses=addresses)
        self._witness.after(seen, sums)
        self._draws += sums.shape[-1] if self._mechanism.sigma > 0 else 0
        return sums

    def noised_rows(self, rows: Tensor, noise: NoiseSource, addresses: list[Address]) -> Tensor:
        """Noise on every clipped row `[K, B, P]`, in place; their sums `[K, P]` carry the declared noise."""
        before, seen = rows.clone(), self._witness.before(rows.double().sum(dim=1))
        sums = self._mechanism.add_to_rows(rows, source=noise, addresses=addresses)
        self._witness.after(seen, sums, grid_width(self._mechanism.row_std))
        self._bounded &= rows_confirmed(before, rows, self._mechanism.row_std)
        self._draws += rows.shape[1] * rows.shape[2]
        return sums

    @property
    def noises_rows(self) -> bool:
        return self._mechanism.noise == "row"

    def receipts(self, clients: Sequence[int], records: Sequence[int]) -> tuple[Receipt, ...]:
        """What was done to each of the clients, from what was executed: one receipt each, in their order."""
        confirmed = self._witness.confirmed(clients)
        steps = self._witness.steps
        return tuple(
            Receipt(
                round=self._round,
                client=client,
                did=self._mechanism.declare(
                    place="example",
                    layers=self._layout.group_count,
                    steps=steps,
                    sampling=self._method.batch.sampling(held, steps),
                ),
                confirmed=confirmed[k] and self._bounded,
                draws=self._draws,
            )
            for k, (client, held) in enumerate(zip(clients, records, strict=True))
        )


def summed_in_blocks(gradients: Gradients, parameters: Tensor, batch: Batch, factors: Factors) -> Sums:
    """The sum of a batch's scaled gradients, short blocks of them in single precision, these in double precision.

    Long chains of additions in single precision would cost too much of the clip (`mechanisms/arithmetic.py`).
    """
    slots = batch.labels.shape[1]
    size = block_size(slots)
    if size == slots:
        return gradients.sums(parameters, batch, factors)
    total = torch.zeros(parameters.shape, dtype=torch.float64)
    losses, rejected = torch.zeros(len(parameters)), torch.zeros(len(parameters), dtype=torch.int64)
    norms = []
    for first in range(0, slots, size):
        part = slice(first, first + size)
        seeds = None if batch.seeds is None else tuple(seed ^ first for seed in batch.seeds)  # random layers differ
        block = Batch(batch.inputs[:, part], batch.labels[:, part], batch.weights[:, part], seeds)
        sums = gradients.sums(parameters, block, factors)
        total += sums.total
        losses += sums.losses
        rejected += sums.rejected
        if sums.norms is not None:
            norms.append(sums.norms)
    return Sums(total, losses, torch.cat(norms, dim=1) if norms else None, rejected)
