"""What a worker sends comes back as it was."""

from __future__ import annotations

import pickle
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from fedveil.core.types import Declaration, Observation, Receipt, Sampling, Unit, View
from fedveil.engine.client import Statistics, Upload
from fedveil.runtimes.packing import pack_uploads, unpack_uploads


def table(rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))


def receipt(client: int) -> Receipt:
    sampling = Sampling("all", records=10 + client, batch=10, cap=10, uses=1)
    return Receipt(0, client, Declaration("upload", Unit.CLIENT, 1, 1.0, 1.0, 2.0, 0.0, sampling), True, 300)


def uploads(count: int, *, reports: bool, own_score: float | None) -> tuple[Upload, ...]:
    """As the engine makes them: each a row of a table."""
    updates, noisy = table(count, 300), table(count, 2)
    return tuple(
        Upload(
            client=7 * client,
            update=updates[client],
            receipts=(receipt(client),) * (client % 3),
            statistics=Statistics(loss=0.1 * client, norms=(1.0, 2.0), rejected=client),
            report=noisy[client] if reports else None,
            own_score=own_score,
            observations=(Observation(View.SERVER, 0, client, None, updates[0], updates[client]),) * (client % 2),
        )
        for client in range(count)
    )


def assert_equal(first: Any, second: Any) -> None:
    """Types, values and the bits of tensors, however deep they lie."""
    assert type(first) is type(second)
    if isinstance(first, Tensor):
        assert first.dtype == second.dtype
        assert torch.equal(first, second)
    elif is_dataclass(first):
        for field in fields(first):
            assert_equal(getattr(first, field.name), getattr(second, field.name))
    elif isinstance(first, tuple):
        for one, other in zip(first, second, strict=True):
            assert_equal(one, other)
    else:
        assert first == second


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("reports", [False, True])
@pytest.mark.parametrize("own_score", [None, 0.5])
def test_a_chunks_uploads_arrive_equal(count: int, reports: bool, own_score: float | None) -> None:
    made = uploads(count, reports=reports, own_score=own_score)
    assert_equal(unpack_uploads(pickle.loads(pickle.dumps(pack_uploads(made)))), made)


def test_rows_of_a_table_take_only_their_own_values_along() -> None:
    whole = [table(2_000, 300)[0], table(2_000, 300)[1]]
    made = [Upload(0, row, (), Statistics(0.0, (), 0)) for row in whole]
    assert len(pickle.dumps(pack_uploads(made))) < 2 * 300 * 4 + 3_000
