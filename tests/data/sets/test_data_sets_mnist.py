"""MNIST: its idx files, and its parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset, official_split
from fedveil.data.sets.mnist import MNIST, parse_idx

HERE = Path("some/file")
IDX = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6))


def test_idx_is_read() -> None:
    assert parse_idx(HERE, IDX, 2).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("content", [b"", IDX[:7], IDX[:-1], IDX + b"x", b"\1" + IDX[1:], b"\0\0\x0d" + IDX[3:]])
def test_bad_idx_is_refused(content: bytes) -> None:
    with pytest.raises(FedveilError, match="some/file: "):
        parse_idx(HERE, content, 2)


def test_mnist_parts_follow_each_other(data_set: Callable[[str], Dataset]) -> None:
    mnist = data_set("mnist")
    assert mnist.train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    whole = official_split(mnist)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert whole.train.labels.bincount().tolist() == counts
    assert whole.validation.labels[:3].tolist() == [7, 2, 1]
    assert whole.test is None


def test_labels_read_alone_are_those_of_the_records(data_set: Callable[[str], Dataset]) -> None:
    data_set("mnist")  # skips where its files are not
    alone, whole = MNIST.labels(), MNIST.load().labels
    assert alone.test is not None
    assert whole.test is not None
    for part, same in ((alone.train, whole.train), (alone.validation, whole.validation), (alone.test, whole.test)):
        assert part.tolist() == same.tolist()
    assert (alone.sites, alone.tokens) == (whole.sites, whole.tokens) == ((), False)


def test_crafted_sizes_whose_product_overflows_to_nothing_are_refused() -> None:
    header = bytes([0, 0, 8, 3]) + b"".join((2**power).to_bytes(4, "big") for power in (22, 21, 21))  # 2⁶⁴ bytes
    with pytest.raises(FedveilError, match="16 bytes where its header says 18,446,744,073,709,551,632"):
        parse_idx(HERE, header, 3)
