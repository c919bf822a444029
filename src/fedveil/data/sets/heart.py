"""UCI Heart Disease: four hospitals, each with its own file, its own patients and its own share of the sick.

Rows, columns and split are those of FLamby's Fed-Heart-Disease: slope, ca and thal, which most hospitals did not
measure, are left out, and so is every row in which one of the other values is missing; 34 % of each hospital's rows
are held out. Scales are round numbers (`MEASURES`); FLamby scales each hospital by its own means and deviations.
Columns of a record: age, sex, trestbps, chol, fbs, thalach, exang, oldpeak, cp = 2, 3, 4, restecg = 1, 2.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedveil.core.digests import text_digest
from fedveil.core.errors import FedveilError
from fedveil.core.openness import Openness
from fedveil.data import sources
from fedveil.data.named_set import ExampleArrays, NamedSet, RoughCosts, SplitArrays, join_sites
from fedveil.data.origins import files_below
from fedveil.data.public_scales import PublicScale, number_column, range_scale, scaled_columns
from fedveil.data.schema import CategoryColumn, FlagColumn, Schema
from fedveil.data.sources import Form, SourceFile

HOSPITALS = {
    "cleveland": SourceFile(
        (
            Form("heart/processed.cleveland.data", "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8"),
            # The same with the six missing values of ca and thal filled in, columns that are not used here.
            Form("heart/processed.cleveland.data", "7849bebbf4e963b402b4fc7b44df2c2682262df969f36d2c536cf6391268dec0"),
        )
    ),
    "hungarian": SourceFile(
        (Form("heart/processed.hungarian.data", "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796"),)
    ),
    "switzerland": SourceFile(
        (Form("heart/processed.switzerland.data", "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314"),)
    ),
    "va": SourceFile(
        (Form("heart/processed.va.data", "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f"),)
    ),
}

MEASURES = {
    "age": range_scale(30, 80),  # years: adults whose chest pain is looked into
    "sex": PublicScale(0, 1),
    "trestbps": range_scale(90, 180),  # resting blood pressure, mmHg: low below 90, a crisis from 180
    "chol": range_scale(100, 350),  # mg/dl: desirable below 200, high from 240
    "fbs": PublicScale(0, 1),
    "thalach": range_scale(80, 200),  # heart rate under exercise: at most about 220 less the age
    "exang": PublicScale(0, 1),
    "oldpeak": range_scale(0, 4),  # mm by which exercise lowers the ST segment: 1 is suspicious, 4 is severe
}
"""Scales of the numbers, and of what is yes or no, in the order of the columns."""

CATEGORIES = {"cp": (1, 2, 3, 4), "restecg": (0, 1, 2)}
"""Codes of the description. The first has no column: it is all zeros."""

_UNITS = {"age": "years", "trestbps": "mmHg", "chol": "mg/dl", "thalach": "beats a minute", "oldpeak": "mm"}
_FLAGS = ("sex", "fbs", "exang")
_CLASSES = ("no disease", "disease")

HEART_SCHEMA = Schema(
    columns=(
        *(
            FlagColumn(name=name, missing="drop")
            if name in _FLAGS
            else number_column(name, scale, unit=_UNITS[name], missing="drop")
            for name, scale in MEASURES.items()
        ),
        *(
            CategoryColumn(name=name, categories=tuple(map(str, codes)), reference=str(codes[0]), missing="drop")
            for name, codes in CATEGORIES.items()
        ),
        CategoryColumn(name="num", categories=_CLASSES, spellings=(("0",), ("1", "2", "3", "4"))),
    ),
    target="num",
    dropped=("slope", "ca", "thal"),
)
"""The same encoding for whoever has new patients: a row that lacks a value is left out, as in `parse_patients`."""

_COLUMNS = (
    *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak"),
    *("slope", "ca", "thal", "num"),
)
_UNUSED = ("slope", "ca", "thal")
_USED = tuple(column for column in _COLUMNS if column not in _UNUSED)
_TRAINING_SHARE = 0.66
_SPLIT_SEED = 43


def parse_patients(path: Path, text: str) -> NDArray[np.float64]:
    """The complete rows of a hospital's file: [N, 11], the last column is the diagnosis."""
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = dict(zip(_COLUMNS, (value.strip() for value in line.split(",")), strict=True))
            used = [row[column] for column in _USED]
            if "?" in used:
                continue
            values = [float(value) for value in used]
            for column, codes in CATEGORIES.items():
                codes.index(int(values[_USED.index(column)]))
        except ValueError as error:
            raise FedveilError(f"{path}, line {number}: not a row of the heart data ({error})") from None
        rows.append(values)
    if not rows:
        raise FedveilError(f"{path}: no complete rows")
    return np.array(rows)


def encode_patients(patients: NDArray[np.float64]) -> ExampleArrays:
    """13 features for each patient, of that patient's row alone, and whether there is a disease."""
    named = dict(zip(_USED, patients.T, strict=True))
    measured = scaled_columns(np.column_stack([named[name] for name in MEASURES]), tuple(MEASURES.values()))
    coded = [named[name] == code for name, codes in CATEGORIES.items() for code in codes[1:]]
    inputs = np.column_stack([measured, *(column.astype(np.float32) for column in coded)])
    return ExampleArrays(inputs.astype(np.float32), (named["num"] > 0).astype(np.int64))


def load_hospital(name: str) -> tuple[ExampleArrays, ExampleArrays]:
    """One hospital's records for training and those held out; needs that hospital's file alone."""
    from sklearn.model_selection import train_test_split  # a second to import, and only needed here

    file = sources.read_source("heart", HOSPITALS[name])
    patients = encode_patients(parse_patients(file.path, file.content.decode("ascii")))
    rows, held_out = train_test_split(
        np.arange(len(patients.labels)),
        train_size=_TRAINING_SHARE,
        test_size=1.0 - _TRAINING_SHARE,
        random_state=_SPLIT_SEED,
        stratify=patients.labels if min(np.bincount(patients.labels, minlength=2)) > 2 else None,
    )
    return patients.pick(np.sort(rows)), patients.pick(np.sort(held_out))


def _load() -> SplitArrays:
    return join_sites({name: load_hospital(name) for name in HOSPITALS})


HEART = NamedSet(
    name="heart",
    description="patients of four hospitals: is there a heart disease?",
    class_names=_CLASSES,
    input_shape=(13,),
    files=tuple(HOSPITALS.values()),
    origins=(files_below("https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease"),),
    load=_load,
    task={
        "data": {"clients": len(HOSPITALS), "records": "none", "partition": {"kind": "sites"}},
        "model": {"name": "mlp", "options": {"hidden": []}},
        "cohort": {"kind": "everyone"},
        "batch": {"kind": "partition", "size": 4},
        "local": {"steps": 50, "rate": 0.05},
        "stop": {"rounds": 10},
    },
    costs=RoughCosts(gradient_microseconds=4.0, evaluation_seconds=0.01),
    features=Openness.PUBLIC,
    validation_records=Openness.PUBLIC,
    encoding=text_digest(str((MEASURES, CATEGORIES))),
    schema=HEART_SCHEMA,
)
