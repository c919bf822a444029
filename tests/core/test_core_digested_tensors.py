"""Tensors come back as they were written, or not at all."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import torch
from bit_flips import flipped
from safetensors.torch import load_file, save_file
from torch import Tensor

from fedveil.core.digested_tensors import TensorsDamaged, digested, read_digested

TENSORS = {
    "weights": torch.tensor([[1.5, -0.0], [float("nan"), 3e38]]),
    "half": torch.tensor([0.25], dtype=torch.bfloat16),
    "count": torch.tensor(7),
    "nothing": torch.zeros(0, 3),
    "flags": torch.tensor([True, False]),
}
FACTS = {"round": "3", "bound": "0.30000000000000004"}


def same(mine: dict[str, Tensor], its: dict[str, Tensor]) -> bool:
    def described(tensors: dict[str, Tensor]) -> dict[str, object]:
        return {n: (t.dtype, t.shape, t.reshape(-1).view(torch.uint8).tolist()) for n, t in tensors.items()}

    return described(mine) == described(its)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(digested(TENSORS, FACTS))
    return tmp_path / "file"


def test_tensors_and_facts_come_back_bit_by_bit(path: Path) -> None:
    tensors, facts = read_digested(path)
    assert same(tensors, TENSORS)
    assert facts == FACTS


def test_the_same_content_gives_the_same_bytes(path: Path) -> None:
    turned = {name: TENSORS[name] for name in reversed(TENSORS)}
    assert {digested(turned, dict(reversed(FACTS.items()))) for _ in range(5)} == {path.read_bytes()}


def test_tensors_in_another_order_of_memory_are_taken(path: Path) -> None:
    turned = torch.arange(6.0).view(2, 3).T
    path.write_bytes(digested({"turned": turned}))
    assert read_digested(path)[0]["turned"].tolist() == turned.tolist()


def test_anybody_can_read_the_tensors_without_fedveil(path: Path) -> None:
    assert same(load_file(path), TENSORS)


def test_no_flipped_bit_is_read_as_something_else(path: Path) -> None:
    counted = Counter[str]()
    for _ in flipped(path, 2000):
        try:
            tensors, facts = read_digested(path)
            counted["no effect" if same(tensors, TENSORS) and facts == FACTS else "unnoticed"] += 1
        except TensorsDamaged:
            counted["noticed"] += 1
    assert counted["unnoticed"] == 0
    assert counted["noticed"] > 1000


@pytest.mark.parametrize("change", [{"facts": {**FACTS, "round": "4"}}, {"facts": {}}, {"digest": "00"}, {"facts": 3}])
def test_other_facts_or_another_digest_are_noticed(path: Path, change: dict[str, object]) -> None:
    stamp = {"digest": "", "facts": FACTS} | change
    save_file(TENSORS, path, metadata={"fedveil": json.dumps(stamp)})
    with pytest.raises(TensorsDamaged):
        read_digested(path)


def test_a_file_without_a_digest_is_read_only_where_none_is_required(path: Path) -> None:
    save_file(TENSORS, path, metadata=FACTS)
    with pytest.raises(TensorsDamaged, match="it has no digest"):
        read_digested(path)
    tensors, facts = read_digested(path, required=False)
    assert same(tensors, TENSORS)
    assert facts == FACTS


@pytest.mark.parametrize("content", [None, b"", b"\xff" * 100])
def test_a_missing_or_foreign_file_is_damaged(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    with pytest.raises(TensorsDamaged):
        read_digested(tmp_path / "file")
