"""CIFAR-10: its binary batches, and its colours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset, official_split
from fedveil.data.sets.cifar10 import CIFAR_RECORD, parse_cifar

HERE = Path("some/file")


def test_cifar_planes_are_red_green_blue() -> None:
    record = bytes([7]) + bytes([1] * 1024 + [2] * 1024 + [3] * 1024)
    images, labels = parse_cifar(HERE, record * 2)
    assert labels.tolist() == [7, 7]
    assert images[1, :, 5, 5].tolist() == [1, 2, 3]


@pytest.mark.parametrize("content", [b"", bytes(CIFAR_RECORD - 1), bytes(CIFAR_RECORD + 1), b"\x0a" + bytes(3072)])
def test_bad_cifar_is_refused(content: bytes) -> None:
    with pytest.raises(FedveilError, match="some/file: "):
        parse_cifar(HERE, content)


def test_cifar_colours_are_right(data_set: Callable[[str], Dataset]) -> None:
    whole = official_split(data_set("cifar10"))
    means = whole.train.inputs.float().mean(dim=(0, 2, 3)) / 255
    torch.testing.assert_close(means, torch.tensor([0.4914, 0.4822, 0.4465]), atol=1e-4, rtol=0)
    assert whole.train.labels.bincount().tolist() == [5000] * 10
