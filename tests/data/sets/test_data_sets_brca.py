"""TCGA-BRCA: six regions, as FLamby has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset
from fedveil.data.sets import brca

FLAMBY = {
    "Northeast": (248, 63), "South": (156, 40), "West": (164, 42), "Midwest": (129, 33), "Europe": (129, 33),
    "Canada": (40, 11),
}  # fmt: skip


def test_the_regions_and_their_split_are_those_of_flamby(data_set: Callable[[str], Dataset]) -> None:
    dataset = data_set("brca")
    assert {site.name: (len(site.train), len(site.validation)) for site in dataset.sites} == FLAMBY
    assert dataset.fingerprint == "2c30bdf81c7c8fae51dd594a04e46aad"


def test_a_region_is_loaded_alone(data_set: Callable[[str], Dataset]) -> None:
    dataset = data_set("brca")
    train, _ = brca.load_region("Canada")
    assert np.array_equal(train.inputs, dataset.train.inputs[list(dataset.sites[-1].train)].numpy())


def test_only_the_age_is_scaled_and_the_label_is_the_event(data_set: Callable[[str], Dataset]) -> None:
    inputs = data_set("brca").train.inputs
    assert inputs[:, 1:].unique().tolist() == [0, 1]
    assert inputs[:, 0].abs().max() <= 1
    names = [f"column {number}" for number in range(38)]
    row = {"pid": "TCGA", "age_at_index": "75", **dict.fromkeys(names, "1"), "E": "1.0", "T": "12.0"}
    patients = brca.encode_tumours([row])
    assert patients.inputs.tolist() == [[0.5, *[1.0] * 38]]
    assert patients.labels.tolist() == [1]


def test_a_row_that_is_none_is_refused() -> None:
    with pytest.raises(FedveilError, match="not a row of the brca data"):
        brca.encode_tumours([{"pid": "TCGA", "age_at_index": "old", "E": "1.0", "T": "12.0"}])
