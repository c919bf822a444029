"""Breast cancer: it comes with scikit-learn, so nothing is fetched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn import datasets

from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset, load, official_split
from fedveil.data.fetching import available, fetch
from fedveil.data.sets import cancer
from fedveil.data.splits import stratified_split


def test_cancer_has_no_official_test_set(data_set: Callable[[str], Dataset]) -> None:
    with pytest.raises(FedveilError, match="'cancer' has no official test set"):
        official_split(data_set("cancer"))


def test_nothing_is_fetched_for_cancer(home: Path) -> None:
    fetch("cancer")
    assert available("cancer")
    assert not home.exists()


def test_cancer_is_scaled_by_what_follows_from_a_nucleus() -> None:
    scales = dict(zip(datasets.load_breast_cancer().feature_names, cancer.COLUMN_SCALES, strict=True))
    assert (scales["mean radius"].centre, scales["mean radius"].spread) == (15, 5)
    assert (scales["radius error"].centre, scales["radius error"].spread) == (1.25, 1.25)
    assert (scales["worst radius"].centre, scales["worst radius"].spread) == (20, 10)
    named = [f"mean {measure}" for measure in cancer.NUCLEUS] + [f"{measure} error" for measure in cancer.NUCLEUS]
    assert list(scales) == [*named, *(f"worst {measure}" for measure in cancer.NUCLEUS)]


@pytest.mark.parametrize("column", [0, 13, 29])
def test_one_outlier_of_cancer_moves_no_other_record(
    column: int, data_set: Callable[[str], Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = data_set("cancer")  # kept for other tests, so it comes before the outlier
    measured, labels = datasets.load_breast_cancer(return_X_y=True)
    rows, _ = stratified_split("cancer", labels, 143)
    measured[rows[200], column] = 1e9
    monkeypatch.setattr(datasets, "load_breast_cancer", lambda **_: (measured, labels))
    after = load("cancer")
    changed = before.train.inputs != after.train.inputs
    assert changed.nonzero().tolist() == [[200, column]]
    assert after.train.inputs[200, column] == 5
    assert before.validation.inputs.equal(after.validation.inputs)


def test_every_column_of_cancer_is_scaled_row_by_row() -> None:
    rows = np.abs(np.random.default_rng(1).normal(size=(4, 30)))
    together = cancer.scaled_columns(rows, cancer.COLUMN_SCALES)
    rows[0] = 1e9
    assert np.array_equal(cancer.scaled_columns(rows, cancer.COLUMN_SCALES)[1:], together[1:])
