"""What goes between a process and its workers comes back as it was."""

from __future__ import annotations

import io
import pickle
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedveil.core.types import Observation, View
from fedveil.engine.client import Statistics, Upload
from fedveil.runtimes.messages import send


def there(message: Any) -> tuple[Any, int]:
    """What arrives, and how many bytes it took."""
    pipe = io.BytesIO()
    send(message, pipe)
    return pickle.loads(pipe.getvalue()), len(pipe.getvalue())


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


def table(rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))


def test_a_chunks_uploads_arrive_equal() -> None:
    updates, reports = table(5, 300), table(5, 2)
    uploads = tuple(
        Upload(
            client=client,
            update=updates[client],
            receipts=(),
            statistics=Statistics(loss=0.1 * client, norms=(1.0, 2.0), rejected=client),
            report=reports[client],
            accuracy=0.5,
            observations=(Observation(View.SERVER, 0, client, None, updates[0], updates[client]),),
        )
        for client in range(5)
    )
    arrived, _ = there(uploads)
    assert_equal(arrived, uploads)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(0),
        torch.tensor(1.5, dtype=torch.float64),
        torch.arange(6).view(2, 3),
        torch.tensor([True, False]),
        table(4, 6).T,
        table(4, 6)[:, 1::2],
        table(1, 3).expand(4, -1),
    ],
    ids=["empty", "number", "whole numbers", "truths", "turned", "columns", "repeated"],
)
def test_every_kind_of_tensor_arrives_equal_and_can_be_written_to(tensor: Tensor) -> None:
    arrived, _ = there(tensor)
    assert_equal(arrived, tensor)
    arrived.zero_()
    assert not arrived.any()


def test_rows_of_a_table_take_only_their_own_values_along() -> None:
    rows = tuple(table(50, 1000))
    _, size = there(rows)
    assert 50 * 4000 <= size < 50 * 4200


def test_a_network_arrives_with_its_parameters_as_parameters() -> None:
    model = nn.Linear(3, 2)
    arrived, _ = there(model)
    assert isinstance(arrived.weight, nn.Parameter)
    assert torch.equal(arrived.weight, model.weight)
