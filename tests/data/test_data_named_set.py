"""The schemas of the tables that have a name: new rows are encoded as the set itself is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedveil.data.encoded_table import read_table
from fedveil.data.known_sets import SETS
from fedveil.data.public_scales import scaled_columns
from fedveil.data.schema_file import parse_schema, schema_toml
from fedveil.data.sets import adult, brca, cancer, heart
from fedveil.data.sources import SourceFile, read_source
from fedveil.runs.run import run
from fedveil.studies.predict import load_model, predict

Raw = tuple[str, NDArray[np.float32]]


def _text(name: str, source: SourceFile) -> tuple[Path, str]:
    file = read_source(name, source)
    return file.path, file.content.decode()


def _heart() -> Raw:
    parts = [_text("heart", source) for source in heart.HOSPITALS.values()]
    encoded = [heart.encode_patients(heart.parse_patients(path, text)).inputs for path, text in parts]
    rows = "\n".join(text.strip() for _, text in parts)
    return f"{','.join(heart._COLUMNS)}\n{rows}\n", np.concatenate(encoded)  # type: ignore[return-value]


def _brca() -> Raw:
    return _text("brca", brca._PATIENTS)[1], brca.encode_tumours(list(brca._rows(brca._PATIENTS))).inputs  # type: ignore[return-value]


def _adult() -> Raw:
    path, text = _text("adult", adult._FILES[1])
    rows = "\n".join(line for line in text.splitlines() if line.strip() and not line.startswith("|"))
    people = adult.parse_people(path, text)
    return f"{','.join(adult.ATTRIBUTES)},income\n{rows}\n", adult.encode_people(people)


def _cancer() -> Raw:
    from sklearn.datasets import load_breast_cancer

    tumours: Any = load_breast_cancer()
    lines = [",".join([*tumours.feature_names, "target"])]
    lines += [
        ",".join(map(repr, [*row, label]))
        for row, label in zip(tumours.data.tolist(), tumours.target.tolist(), strict=True)
    ]
    return "\n".join(lines), scaled_columns(tumours.data, cancer.COLUMN_SCALES)


@pytest.mark.parametrize(("name", "raw"), [("heart", _heart), ("brca", _brca), ("adult", _adult), ("cancer", _cancer)])
def test_a_sets_schema_makes_the_same_features_as_the_set_itself(
    name: str, raw: Callable[[], Raw], tmp_path: Path
) -> None:
    schema = SETS[name].schema
    assert schema is not None
    text, expected = raw()
    (tmp_path / "rows.csv").write_text(text)
    table = read_table(tmp_path / "rows.csv", schema)
    assert table.inputs.shape == expected.shape
    assert np.abs(table.inputs - expected).max() < 1e-5
    assert set(np.unique(np.asarray(table.labels))) == {0, 1}
    assert schema.task.class_names == SETS[name].class_names  # type: ignore[union-attr]
    assert schema.openness is SETS[name].features
    assert parse_schema(schema_toml(schema), "s") == schema


def test_a_model_of_the_four_hospitals_predicts_for_a_table_of_new_patients(tmp_path: Path) -> None:
    settings = {"data.name": "heart", "stop.rounds": 2}
    run("private-records", settings, seed=1, out=tmp_path / "run", workers=1)
    text, expected = _heart()
    lines = text.splitlines()
    (tmp_path / "new.csv").write_text("\n".join([lines[0], *lines[1:11]]) + "\n")  # all of them are complete
    predictions = predict(tmp_path / "run", tmp_path / "new.csv")
    said = load_model(tmp_path / "run")(torch.from_numpy(expected[:10])).softmax(dim=1).detach().numpy()
    assert np.allclose(predictions.values, said, atol=1e-5)
    assert set(predictions.classes) <= {"no disease", "disease"}
    assert "restecg" in (tmp_path / "run" / "model-card.md").read_text()
