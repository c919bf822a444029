"""Adult: from lines of text to 105 numbers, each row by itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedveil.core.digests import text_digest
from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset, load
from fedveil.data.public_scales import PublicScale
from fedveil.data.sets import adult
from fedveil.data.sources import data_directories
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
    people = adult.parse_people(HERE, f"{ROW}\n{ROW.replace('State-gov', '?')}\n{ROW.replace('39', '?')}")
    features = adult.encode_people(people)
    assert features.shape == (3, 105)
    assert features[:, 6:].sum(axis=1).tolist() == [8, 7, 8]
    assert features[1, 6:14].sum() == 0
    assert features[2, 0] == 0
    assert np.isfinite(features).all()


def test_a_number_of_adult_becomes_its_distance_from_a_round_number() -> None:
    (features,) = adult.encode_people(adult.parse_people(HERE, ROW))
    expected = [(39 - 40) / 15, (77_516 - 200_000) / 100_000, (13 - 10) / 3, np.log(2175) / 2, 0, 0]
    assert features[:6] == pytest.approx(expected)


def test_values_of_categories_are_those_of_the_public_description() -> None:
    names = next((folder / "adult/adult.names" for folder in data_directories()), None)
    if names is None or not names.is_file():
        pytest.skip("the description is not beside the data here")
    listed = dict(re.findall(r"^([a-z-]+): (.*)\.$", names.read_text(), re.M))
    stated = {name: value if isinstance(value, str) else "continuous" for name, value in adult.ATTRIBUTES.items()}
    assert {name: listed[name] for name in stated} == stated


@pytest.fixture
def altered(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[adult.People], None]], Dataset]:
    """Loads the data set after its parsed rows were changed."""
    original = adult.join_people

    def load_with(change: Callable[[adult.People], None]) -> Dataset:
        def changed(first: adult.People, second: adult.People) -> adult.People:
            everyone = original(first, second)
            change(everyone)
            return everyone

        monkeypatch.setattr(adult, "join_people", changed)
        return load("adult")

    return load_with


@pytest.mark.parametrize("column", range(6), ids=list(adult.NUMBER_SCALES))
@pytest.mark.parametrize("value", [1e9, -1e9, np.nan, np.inf])
def test_one_record_changes_no_other_record_s_features(column: int, value: float) -> None:
    """With means and deviations of all records, a weight of 1e9 in one moved every other client's features."""
    people = adult.parse_people(HERE, "\n".join([ROW, ROW.replace("39", "50"), ROW.replace("2174", "0")]))
    before = adult.encode_people(people)
    people.numbers[1, column] = value
    after = adult.encode_people(people)
    assert np.array_equal(before[[0, 2]], after[[0, 2]])
    assert np.array_equal(np.delete(before[1], column), np.delete(after[1], column))
    assert np.abs(after[1, column]) <= 5


def test_one_outlier_moves_no_client_that_does_not_hold_it(
    data_set: Callable[[str], Dataset], altered: Callable[[Callable[[adult.People], None]], Dataset]
) -> None:
    rows, _ = split("adult", 48_842, 12_211)

    def outlier(everyone: adult.People) -> None:
        everyone.numbers[rows[7], list(adult.NUMBER_SCALES).index("fnlwgt")] = 1e9

    before, after = data_set("adult"), altered(outlier)
    changed = (before.train.inputs != after.train.inputs).any(dim=1).nonzero().flatten().tolist()
    assert changed == [7]
    assert before.validation.inputs.equal(after.validation.inputs)


def test_other_constants_give_the_set_another_encoding() -> None:
    assert adult.ADULT.encoding == text_digest(str(adult.ATTRIBUTES))
    assert adult.ADULT.encoding != text_digest(str(adult.ATTRIBUTES | {"age": PublicScale(40, 16)}))
