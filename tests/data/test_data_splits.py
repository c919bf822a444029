"""Which record is in which part never changes."""

from __future__ import annotations

import numpy as np

from fedveil.data import splits


def test_splits_are_fixed_for_ever() -> None:
    assert splits.shuffled("adult", 6).tolist() == [3, 1, 0, 4, 5, 2]
    train, validation = splits.split("adult", 100, 25)
    assert sorted([*train, *validation]) == list(range(100))
    labels = np.repeat([0, 1, 2], [50, 30, 20])
    train, validation = splits.stratified_split("any", labels, 25)
    assert np.bincount(labels[validation]).tolist() == [13, 7, 5]
    assert sorted([*train, *validation]) == list(range(100))
