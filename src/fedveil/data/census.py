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
from fedveil.data.dealing import Integers

# The attributes in the order of the file; None stands for a continuous one.
ATTRIBUTES: dict[str, str | None] = {
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
NUMBERS = tuple(name for name, values in ATTRIBUTES.items() if values is None)
CATEGORIES = {name: tuple(values.split(", ")) for name, values in ATTRIBUTES.items() if values is not None}
HEAVY_TAILED = ("capital-gain", "capital-loss")
FEATURES = len(NUMBERS) + sum(len(values) for values in CATEGORIES.values())
INCOMES = ("<=50K", ">50K")
MISSING = -1


@dataclass(frozen=True, eq=False)
class People:
    """Parsed rows: numbers [N, 6], category codes [N, 8] (−1: unknown), labels [N] (1: more than 50K)."""

    numbers: NDArray[np.float64]
    codes: Integers
    labels: Integers

    def __getitem__(self, rows: Integers) -> People:
        return People(self.numbers[rows], self.codes[rows], self.labels[rows])


@dataclass(frozen=True, eq=False)
class Scale:
    """Mean and standard deviation of the six numbers, after the logarithm where there is one."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]


def parse_people(path: Path, text: str) -> People:
    """The rows of adult.data or adult.test, without empty lines and the comment line (`|`) of adult.test."""
    numbers: list[list[float]] = []
    codes: list[list[int]] = []
    labels: list[int] = []
    lookup = {name: {value: code for code, value in enumerate(values)} for name, values in CATEGORIES.items()}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("|"):
            continue
        try:
            *attributes, income = (value.strip() for value in line.split(","))
            named = dict(zip(ATTRIBUTES, attributes, strict=True))
            numbers.append([float(named[name]) for name in NUMBERS])
            codes.append([MISSING if named[name] == "?" else known[named[name]] for name, known in lookup.items()])
            labels.append(INCOMES.index(income.removesuffix(".")))
        except (ValueError, KeyError) as error:
            raise FedveilError(f"{path}, line {number}: not a row of the Adult data ({error})") from None
    if not labels:
        raise FedveilError(f"{path}: no rows")
    return People(np.array(numbers), np.array(codes, dtype=np.int64), np.array(labels, dtype=np.int64))


def joined(first: People, second: People) -> People:
    """The rows of both, the first ones first."""
    return People(
        np.concatenate([first.numbers, second.numbers]),
        np.concatenate([first.codes, second.codes]),
        np.concatenate([first.labels, second.labels]),
    )


def fit_scale(training: People) -> Scale:
    """Learn the scale of the numbers. Only ever called with the training part."""
    numbers = _tamed(training.numbers)
    deviation = numbers.std(axis=0)
    return Scale(numbers.mean(axis=0), np.where(deviation > 0, deviation, 1.0))


def encode(people: People, scale: Scale) -> NDArray[np.float32]:
    """105 features for each person: [N, 105]."""
    features = np.zeros((len(people.labels), FEATURES), dtype=np.float32)
    features[:, : len(NUMBERS)] = (_tamed(people.numbers) - scale.mean) / scale.deviation
    first = len(NUMBERS)
    for column, values in enumerate(CATEGORIES.values()):
        codes = people.codes[:, column]
        known = np.flatnonzero(codes != MISSING)
        features[known, first + codes[known]] = 1.0
        first += len(values)
    return features


def _tamed(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where([name in HEAVY_TAILED for name in NUMBERS], np.log1p(np.maximum(numbers, 0.0)), numbers)
