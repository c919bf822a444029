"""Adult: from lines of text to 105 numbers, fitted on the training part alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset, load
from fedveil.data.sets import adult
from fedveil.data.splits import split

HERE = Path("some/file")
ROW = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
    "2174, 0, 40, United-States, <=50K"
)


def test_adult_rows_are_read() -> None:
    text = f"|1x3 Cross validator\n{ROW}\n\n{ROW.replace('State-gov', '?').replace('<=50K', '>50K')}.\n"
    people = adult.parse_people(HERE, text)
    assert people.labels.tolist() == [0, 1]
    assert people.numbers[0].tolist() == [39, 77516, 13, 2174, 0, 40]
    assert people.codes[1, 0] == adult.UNKNOWN_CODE


@pytest.mark.parametrize(
    "line",
    [
        ROW.rpartition(",")[0],
        ROW + ", more",
        ROW.replace("39", "old"),
        ROW.replace("Bachelors", "Wizard"),
        ROW.replace("<=50K", "rich"),
        "39",
    ],
)
def test_malformed_adult_lines_are_named(line: str) -> None:
    with pytest.raises(FedveilError, match="some/file, line 2: not a row of the Adult data"):
        adult.parse_people(HERE, f"{ROW}\n{line}\n")


def test_adult_without_rows_is_refused() -> None:
    with pytest.raises(FedveilError, match="no rows"):
        adult.parse_people(HERE, "\n")


def test_adult_has_105_features_and_unknown_is_all_zero() -> None:
    assert adult.ADULT.input_shape == (105,)
    people = adult.parse_people(HERE, f"{ROW}\n{ROW.replace('State-gov', '?')}\n{ROW.replace('39', '50')}")
    features = adult.encode_people(people, adult.fit_number_scale(people))
    assert features.shape == (3, 105)
    assert features[:, 6:].sum(axis=1).tolist() == [8, 7, 8]
    assert features[1, 6:14].sum() == 0
    assert np.isfinite(features).all()


def test_adult_is_fitted_on_the_training_part_only() -> None:
    train = adult.parse_people(HERE, f"{ROW}\n{ROW.replace('39', '50')}")
    others = [adult.parse_people(HERE, ROW.replace("39", age)) for age in ("17", "90")]
    encodings = []
    for validation in others:
        everyone = adult.join_people(train, validation)
        scale = adult.fit_number_scale(everyone[np.arange(2)])
        encodings.append(adult.encode_people(everyone, scale))
    assert np.array_equal(encodings[0][:2], encodings[1][:2])
    assert not np.array_equal(encodings[0][2], encodings[1][2])


def test_changing_validation_rows_of_adult_leaves_the_training_part_alone(
    data_set: Callable[[str], Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same through `load`: rows that land in the validation part are changed after parsing."""
    before = data_set("adult")
    _, held_out = split("adult", 48_842, 12_211)
    original = adult.join_people

    def altered(first: adult.People, second: adult.People) -> adult.People:
        everyone = original(first, second)
        everyone.numbers[held_out] += 1000
        return everyone

    monkeypatch.setattr(adult, "join_people", altered)
    after = load("adult")
    assert before.train.inputs.equal(after.train.inputs)
    assert not before.validation.inputs.equal(after.validation.inputs)
