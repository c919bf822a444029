"""Sums of very many rows: the same bits however many blocks are computed at once, and neighbours that stay close."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from fedveil.core.parameters import Layout
from fedveil.engine import sanitiser
from fedveil.engine.batched import choose
from fedveil.engine.gradients import Batch, Sums
from fedveil.mechanisms.arithmetic import NORM_MARGIN, SHORT_BLOCK, margin

ROWS, NUMBERS = 32 * 13 + 5, 6


def linear() -> nn.Module:
    return nn.Sequential(nn.Linear(NUMBERS, 3))


def deep() -> nn.Module:
    return nn.Sequential(nn.Linear(NUMBERS, 5), nn.Tanh(), nn.Linear(5, 3))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.last = nn.GRU(2, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        states, _ = self.cells(inputs.view(-1, 3, 2))
        return self.last(states[:, -1])


def random() -> nn.Module:
    return nn.Sequential(nn.Linear(NUMBERS, 5), nn.Dropout(0.5), nn.Linear(5, 3))


def summed(make: Callable[[], nn.Module], batch: Batch) -> Sums:
    torch.manual_seed(0)
    model = make()
    gradients = choose(model, batch.inputs[0])
    parameters = Layout.of(model).vector(model)
    parameters = torch.stack([parameters, parameters * 1.1])

    def clipped(norms: Tensor) -> Tensor:
        return torch.clamp(0.3 / norms.norm(dim=-1, keepdim=True).clamp_min(1e-30), max=1.0).expand_as(norms)

    return sanitiser.summed_in_blocks(gradients, parameters, batch, clipped)


def records() -> Batch:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(2, ROWS, NUMBERS, generator=generator)
    labels = torch.randint(3, (2, ROWS), generator=generator)
    return Batch(inputs, labels, torch.ones(2, ROWS), (11, 12))


@pytest.mark.parametrize("make", [linear, deep, Recurrent, random])
def test_blocks_side_by_side_have_the_bits_of_blocks_one_by_one(
    make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = records()
    one_by_one = summed(make, batch)
    monkeypatch.setattr(sanitiser, "LONG_SUM", 128)
    for room in (1, 10_000, 2**20):
        monkeypatch.setattr(sanitiser, "NUMBERS_TOGETHER", room)
        together = summed(make, batch)
        assert (together.total - one_by_one.total).abs().max() < 1e-13  # blocks are added in double precision
        assert torch.equal(together.rejected, one_by_one.rejected)
        assert torch.allclose(together.losses, one_by_one.losses)


@pytest.mark.parametrize("make", [linear, deep, Recurrent])
def test_a_record_more_moves_a_very_long_sum_by_its_own_block_alone(
    make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounding of all the others cancels: the sums of two neighbours differ as what is taken off the clip allows."""
    monkeypatch.setattr(sanitiser, "LONG_SUM", 128)
    batch = records()
    sums = summed(make, batch)
    allowed = margin(rows=20_000, chain=SHORT_BLOCK, size=1, multiplier=0.0) - NORM_MARGIN
    for place in (0, 200, ROWS - 1):
        weights = batch.weights.clone()
        weights[:, place] = 0
        without = summed(make, Batch(batch.inputs, batch.labels, weights, batch.seeds))
        alone = Batch(batch.inputs, batch.labels, batch.weights - weights, batch.seeds)
        apart, row = sums.total - without.total, summed(make, alone).total
        assert row.norm(dim=1).min() > 1e-3
        assert ((apart - row).norm(dim=1) <= 0.3 * allowed).all()
        begin = place // SHORT_BLOCK * SHORT_BLOCK
        weights = batch.weights.clone()
        weights[:, begin : begin + SHORT_BLOCK] = 0
        others = Batch(batch.inputs, batch.labels, weights, batch.seeds)
        changed = batch.inputs.clone()
        changed[:, place] = 3.0
        assert torch.equal(
            summed(make, others).total, summed(make, Batch(changed, batch.labels, weights, batch.seeds)).total
        )
