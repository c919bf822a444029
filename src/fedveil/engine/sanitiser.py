"""Clipping and noise inside a client's training: each step's sum of gradients, and what receipts say of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from fedveil.core.parameters import Layout
from fedveil.core.streams import Address
from fedveil.core.types import Receipt
from fedveil.engine.gradients import Batch, Factors, Gradients, Sums
from fedveil.engine.receipts import as_declared
from fedveil.engine.sites import Draws
from fedveil.mechanisms.arithmetic import block_size, margin
from fedveil.mechanisms.gaussian import GaussianRound
from fedveil.mechanisms.noise import NoiseSource
from fedveil.method import Method

MEASURED_COORDINATES = 20_000
"""How many noise coordinates of a client's round are measured, spread evenly over its steps."""


class Sanitiser:
    """Clips and noises the steps of one round and keeps the tally that becomes the receipts."""

    def __init__(self, method: Method, round: int, draws: Draws, layout: Layout) -> None:
        assert method.example is not None
        self._method, self._round, self._batch = method, round, draws.declared
        self._mechanism: GaussianRound = method.example.at(round, method.rounds)
        self._steps, self._draws = 0, 0
        self._measured = -(-MEASURED_COORDINATES // max(draws.steps, 1))  # in each step
        self._squares, self._seen = torch.zeros((), dtype=torch.float64), 0
        self._always = torch.ones((), dtype=torch.bool)  # there was noise in every step
        below = margin(
            rows=draws.slots,
            chain=block_size(draws.slots),
            size=layout.size,
            multiplier=self._mechanism.multiplier(draws.declared, layout.group_count),
        )
        self.factors: Factors = partial(self._mechanism.factors, margin=below)

    def noised_sums(self, sums: Tensor, noise: NoiseSource, addresses: list[Address]) -> Tensor:
        """Noise on the clipped sums `[K, P]`, in place."""
        some = self._some(sums.shape[-1])
        before = sums[:, some].clone()
        self._mechanism.add_to_sums(sums, rows=self._batch, source=noise, addresses=addresses)
        self._tally(before, sums[:, some], sums.shape[-1])
        return sums

    def noised_rows(self, rows: Tensor, noise: NoiseSource, addresses: list[Address]) -> Tensor:
        """Noise on every clipped row `[K, B, P]`, in place; their sums `[K, P]` carry the declared noise."""
        some = self._some(rows.shape[-1])
        before = rows[..., some].sum(dim=1)
        sums = self._mechanism.add_to_rows(rows, source=noise, addresses=addresses)
        self._tally(before, sums[:, some], rows.shape[1] * rows.shape[2])
        return sums

    @property
    def noises_rows(self) -> bool:
        return self._mechanism.noise == "row"

    def _some(self, size: int) -> slice:
        """The coordinates that are measured in this step: the next ones in every step, so that all have their turn."""
        width = min(self._measured, size)
        first = self._steps * width % (size - width + 1)
        return slice(first, first + width)

    def _tally(self, before: Tensor, after: Tensor, coordinates: int) -> None:
        squares = (after - before).double().square().sum(dim=-1)
        self._squares, self._always = self._squares + squares, self._always & (squares > 0)
        self._seen += before.shape[-1]
        self._steps += 1
        self._draws += coordinates if self._mechanism.sigma > 0 else 0

    def _confirmed(self) -> list[bool]:
        """Whether each client's noise was there in every step and had the declared size. The size itself stays here."""
        declared = self._mechanism.sum_std(self._batch)
        means, always = (self._squares / max(self._seen, 1)).tolist(), self._always.tolist()
        return [
            as_declared(mean, declared, self._seen) and (noisy or declared == 0)
            for mean, noisy in zip(means, always, strict=True)
        ]

    def receipts(self, clients: Sequence[int], records: Sequence[int], layers: int) -> tuple[Receipt, ...]:
        """What was done to each of the clients, from what was executed: one receipt each, in their order."""
        confirmed = self._confirmed()
        return tuple(
            Receipt(
                round=self._round,
                client=client,
                did=self._mechanism.declare(
                    place="example",
                    layers=layers,
                    steps=self._steps,
                    sampling=self._method.batch.sampling(held, self._steps),
                ),
                confirmed=confirmed[k],
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
