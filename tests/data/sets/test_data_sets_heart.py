"""Heart: four hospitals, as FLamby has them, scaled by round numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset
from fedveil.data.sets import heart
from fedveil.data.sources import data_directories

HERE = Path("some/file")
ROW = "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0"
FLAMBY = {"cleveland": (199, 104), "hungarian": (172, 89), "switzerland": (30, 16), "va": (85, 45)}


def test_the_hospitals_are_unequal_and_split_as_flamby_splits_them(data_set: Callable[[str], Dataset]) -> None:
    dataset = data_set("heart")
    assert {site.name: (len(site.train), len(site.validation)) for site in dataset.sites} == FLAMBY
    sick = {site.name: int(dataset.train.labels[list(site.train)].sum()) for site in dataset.sites}
    assert sick == {"cleveland": 91, "hungarian": 65, "switzerland": 30, "va": 66}


def test_which_patients_are_held_out_never_changes(data_set: Callable[[str], Dataset]) -> None:
    """The split is that of a library; another version of it must not move a patient unnoticed."""
    assert data_set("heart").fingerprint == "79e35910d0c65ed3db455e7e365510cd"


def test_a_hospital_is_loaded_from_its_own_file_alone(
    data_set: Callable[[str], Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = data_set("heart")
    form = heart.HOSPITALS["va"].forms[0]
    source = next(folder / form.path for folder in data_directories() if (folder / form.path).is_file())
    (tmp_path / form.path).parent.mkdir()
    (tmp_path / form.path).write_bytes(source.read_bytes())
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path))
    train, validation = heart.load_hospital("va")
    site = dataset.sites[-1]
    assert np.array_equal(train.inputs, dataset.train.inputs[list(site.train)].numpy())
    assert np.array_equal(validation.labels, dataset.validation.labels[list(site.validation)].numpy())


def test_a_patient_becomes_thirteen_numbers_of_its_own_row() -> None:
    patients = heart.encode_patients(heart.parse_patients(HERE, f"{ROW}\n{ROW.replace('1.0,1.0', '1.0,4.0', 1)}\n"))
    expected = [(63 - 55) / 25, 1, (145 - 135) / 45, (233 - 225) / 125, 1, (150 - 140) / 60, 0, (2.3 - 2) / 2]
    assert patients.inputs[0] == pytest.approx([*expected, 0, 0, 0, 0, 1])
    assert patients.inputs[1] == pytest.approx([*expected, 0, 0, 1, 0, 1])


def test_numbers_outside_the_public_ranges_are_cut() -> None:
    wild = ROW.replace("233.0", "1e9").replace("2.3", "-3").replace("145.0", "0")
    assert np.abs(heart.encode_patients(heart.parse_patients(HERE, wild)).inputs).max() == 1


def test_rows_with_a_missing_value_are_left_out_unless_it_is_in_a_column_that_is_not_used() -> None:
    missing, unused = ROW.replace("233.0", "?"), ROW.replace("3.0,0.0,6.0", "?,?,?")
    assert len(heart.parse_patients(HERE, f"{ROW}\n{missing}\n{unused}\n")) == 2
    with pytest.raises(FedveilError, match="some/file: no complete rows"):
        heart.parse_patients(HERE, missing)


@pytest.mark.parametrize("line", [ROW + ",1", "63", ROW.replace("63.0", "old"), ROW.replace("1.0,1.0", "1.0,7.0", 1)])
def test_malformed_lines_are_named(line: str) -> None:
    with pytest.raises(FedveilError, match="some/file, line 2: not a row of the heart data"):
        heart.parse_patients(HERE, f"{ROW}\n{line}\n")


@pytest.mark.parametrize(("diagnosis", "label"), [("0", 0), ("1", 1), ("4", 1)])
def test_every_diagnosis_but_zero_is_a_disease(diagnosis: str, label: int) -> None:
    patients = heart.parse_patients(HERE, ROW.removesuffix("0") + diagnosis)
    assert heart.encode_patients(patients).labels.tolist() == [label]


def test_the_copy_with_six_values_filled_in_has_the_same_used_columns(data_set: Callable[[str], Dataset]) -> None:
    """Either form of Cleveland's file gives the same records."""
    data_set("heart")
    original, filled = heart.HOSPITALS["cleveland"].forms
    path = next(folder / filled.path for folder in data_directories() if (folder / filled.path).is_file())
    lines = path.read_text().splitlines()
    for column, rows in ((11, (166, 192, 287, 302)), (12, (87, 266))):
        for row in rows:
            values = lines[row].split(",")
            values[column] = "?"
            lines[row] = ",".join(values)
    restored = "\n".join([*lines, ""])
    assert hashlib.sha256(restored.encode()).hexdigest() == original.sha256
    assert np.array_equal(heart.parse_patients(path, restored), heart.parse_patients(path, path.read_text()))
