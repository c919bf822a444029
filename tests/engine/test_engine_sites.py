"""Batches of a round: several steps' records are fetched at once, and are what each step alone would be."""

from __future__ import annotations

import pytest
import torch

from fedveil.core.streams import Streams
from fedveil.data.dataset import Examples, to_float
from fedveil.data.row_lists import RowLists
from fedveil.engine import sites
from fedveil.engine.sites import Sites
from fedveil.method import Method
from fedveil.parts.batches import PartitionBatch, PoissonBatch
from fedveil.parts.local_training import LocalTraining


@pytest.mark.parametrize("fetched", [1, 100, 1 << 20])
@pytest.mark.parametrize("batch", [PartitionBatch(3), PoissonBatch(3)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_steps_fetched_together_are_those_fetched_alone(
    fetched: int, batch: PartitionBatch | PoissonBatch, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sites, "FETCHED_TOGETHER", fetched)
    examples = Examples(torch.arange(60 * 4).view(60, 2, 2).to(dtype), torch.arange(60))
    held = Sites.of(examples, RowLists.of([torch.arange(30), torch.arange(30, 60)]))
    draws = held.draw(Method(batch=batch, local=LocalTraining(steps=7, rate=0.1)), 0, [0, 1], Streams.from_seed(1))
    batches, (indices, weights) = held.batches(draws), draws.by_step
    for step in (0, 1, 2, 3, 6, 4, 5, 0):
        made = batches.at(step, (5, 6))
        assert torch.equal(made.inputs, to_float(examples.inputs[indices[step]]))
        assert torch.equal(made.labels, examples.labels[indices[step]])
        assert torch.equal(made.weights, weights[step])
        assert made.seeds == (5, 6)
