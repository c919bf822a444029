"""A data set small enough to train in a blink."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fedveil.data.dataset import Dataset, Examples, from_tensors


def make_blobs(count: int, seed: int) -> Examples:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    centres = torch.eye(3, 6) * 3
    return Examples(centres[labels] + torch.randn(count, 6, generator=generator), labels)


@pytest.fixture(scope="session")
def blobs() -> Dataset:
    return from_tensors("blobs", make_blobs(300, 1), make_blobs(90, 2))


@pytest.fixture
def tiny() -> dict[str, Any]:
    """Settings that make any method of the zoo a matter of milliseconds on the blobs."""
    return {
        "data.name": "blobs",
        "data.clients": 10,
        "data.records": 30,
        "data.partition": "random",
        "model.name": "mlp",
        "model.options.hidden": [8],
        "cohort": {"kind": "fixed", "size": 4},
        "batch": {"kind": "partition", "size": 5},
        "local.steps": 6,
        "stop.rounds": 4,
        "seed": 1,
    }
