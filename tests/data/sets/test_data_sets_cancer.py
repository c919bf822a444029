"""Breast cancer: it comes with scikit-learn, so nothing is fetched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset, official_split
from fedveil.data.fetching import available, fetch


def test_cancer_has_no_official_test_set(data_set: Callable[[str], Dataset]) -> None:
    with pytest.raises(FedveilError, match="'cancer' has no official test set"):
        official_split(data_set("cancer"))


def test_nothing_is_fetched_for_cancer(home: Path) -> None:
    fetch("cancer")
    assert available("cancer")
    assert not home.exists()
