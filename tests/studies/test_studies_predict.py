"""A trained model goes home: its card, what it predicts for new rows, and plain PyTorch."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.guarantee import CaveatKind, Guarantee
from fedveil.data.dataset import Dataset, from_tensors
from fedveil.data.encoded_table import read_table
from fedveil.data.schema import Schema
from fedveil.data.schema_file import parse_schema, schema_digest
from fedveil.data.site_tables import table_examples
from fedveil.runs.files import RunFiles
from fedveil.runs.run import resume, run
from fedveil.studies.predict import load_model, predict

SCHEMA = """
target = "disease"

[columns.age]
type = "number"
low = 0
high = 100
unit = "years"
outside = "clip"

[columns.pain]
type = "category"
categories = ["mild", "strong"]
missing = "flag"

[columns.disease]
type = "category"
categories = { healthy = [0], sick = [1, 2] }
"""

SHORT: dict[str, Any] = {
    "data.clients": 4,
    "data.records": 20,
    "data.partition": "random",
    "cohort.size": 4,
    "local.steps": 20,
    "local.rate": 0.5,
    "batch.size": 10,
    "stop.rounds": 3,
    "model.name": "mlp",
    "model.options": {"hidden": []},
}


def table_text(rows: int, labelled: bool = True) -> str:
    """Older people are sick."""
    lines = ["age,pain,disease" if labelled else "age,pain"]
    for row in range(rows):
        age = (37 * row) % 100
        pain = ("mild", "strong", "")[row % 3]
        lines.append(f"{age},{pain}" + (f",{1 if age > 50 else 0}" if labelled else ""))
    return "\n".join(lines) + "\n"


def dataset(folder: Path, schema: Schema) -> Dataset:
    path = folder / "training.csv"
    path.write_text(table_text(100))
    examples = table_examples(read_table(path, schema))
    made = from_tensors(
        "ward",
        examples.pick(slice(0, 80)),
        examples.pick(slice(80, 100)),
        task=schema.task,
        features=schema.openness,
        validation_records="private",
    )
    return replace(made, schema=schema)


def trained(folder: Path, text: str = SCHEMA, **settings: Any) -> Path:
    data = dataset(folder, parse_schema(text, "schema.toml"))
    run("fedavg", SHORT | settings, seed=1, out=folder / "run", workers=1, dataset=data)
    return folder / "run"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("home"))


def test_predictions_are_the_classes_and_probabilities_of_the_rows_in_their_order(
    finished: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new.csv"
    new.write_text("note,pain,age\na,mild,95\nb,,2\nc,strong,1000\n")
    predictions = predict(finished, new, out=tmp_path / "out.csv")
    assert predictions.classes == ["sick", "healthy", "sick"]
    assert np.allclose(predictions.values.sum(axis=1), 1)
    with open(tmp_path / "out.csv", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["row", "disease", "probability of healthy", "probability of sick"]
    assert [row[:2] for row in rows] == [["1", "sick"], ["2", "healthy"], ["3", "sick"]]
    assert float(rows[0][3]) == pytest.approx(float(predictions.values[0, 1]), abs=1e-6)


def test_predictions_are_what_the_trained_network_says(finished: Path, tmp_path: Path) -> None:
    schema = parse_schema(SCHEMA, "schema.toml")
    table = read_table(finished.parent / "training.csv", schema)
    expected = load_model(finished)(torch.from_numpy(table.inputs)).softmax(dim=1).detach().numpy()
    assert np.allclose(predict(finished, finished.parent / "training.csv").values, expected, atol=1e-6)


def test_the_three_lines_of_the_card_load_the_model_into_plain_pytorch(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (finished / "model-card.md").read_text()
    lines = text.partition("```python\n")[2].partition("```")[0]
    assert len(lines.splitlines()) == 3
    assert "fedveil" not in lines
    monkeypatch.chdir(finished)
    scope: dict[str, Any] = {}
    exec(lines, scope)
    inputs = torch.tensor([[0.9, 1.0, 0.0, 0.0], [-0.9, 0.0, 0.0, 1.0]])
    assert torch.equal(scope["model"](inputs), load_model(finished)(inputs))


@pytest.mark.parametrize(
    ("name", "options", "plain"),
    [
        ("mlp", {"hidden": [8], "activation": "elu"}, True),
        ("cnn", {}, True),
        ("fed-cdp-cnn", {}, True),
        ("leakage-cnn", {}, True),
        ("prifedsync-mnist", {}, True),
        ("geyer-mlp", {}, True),
        ("linear", {"limit": 0.5, "constant": 1.0}, True),
        ("linear", {"limit": 0.5, "low_ends": True}, True),
        ("linear", {"products": True}, True),
        ("linear", {"low_ends": True, "products": True}, True),
        ("scattering", {}, False),
        ("scattering", {"basis": "scenes"}, False),
    ],
)
def test_every_network_can_be_loaded_by_three_lines(
    name: str, options: dict[str, Any], plain: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import save_file

    from fedveil.models.loading_lines import loading_lines
    from fedveil.models.registry import build

    shape = (5,) if name == "linear" else (1, 28, 28)
    model = build(name, shape, 10, options, seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape)  # some begin at zero
    lines = loading_lines(model, name, shape, 10, options, 4)
    assert ("fedveil" not in "".join(lines)) == plain
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, tmp_path / "model.safetensors")
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    exec("\n".join(lines), scope)
    records = torch.rand(20, *shape) * 2 - 1 if name == "linear" else torch.rand(2, *shape)
    assert torch.allclose(scope["model"](records), model(records), atol=1e-5)


# The card


def test_the_card_has_schema_classes_encoding_guarantees_and_the_digest_of_the_model(finished: Path) -> None:
    card = json.loads((finished / "model-card.json").read_text())
    assert card["task"] == {"kind": "classification", "target": "disease", "classes": ["healthy", "sick"]}
    assert card["schema"]["digest"] == schema_digest(parse_schema(SCHEMA, "schema.toml"))
    assert card["schema"]["table"]["columns"]["age"]["high"] == 100
    assert [column["features"] for column in card["schema"]["columns"]] == [
        ["age"],
        ["pain = mild", "pain = strong", "pain missing"],
    ]
    cells = [Guarantee.from_dict(cell) for cell in card["guarantees"]]
    assert len(cells) == 10
    text = (finished / "model-card.md").read_text()
    for part in ("0 to 100 years", "2·(x − 0)/(100 − 0) − 1", "healthy, sick", card["model"]["sha256"], "ε = ∞"):
        assert part in text
    assert "accuracy" not in json.dumps(card) + text  # it was measured on private records


def test_a_card_never_shows_what_was_read_off_the_records(tmp_path: Path) -> None:
    text = SCHEMA.replace("high = 100", 'high = 98.0625\nsource = "data"').replace(
        "categories = { healthy", 'source = "data"\ncategories = { healthy'
    )
    out = trained(tmp_path, text)
    shown = (out / "model-card.md").read_text() + (out / "model-card.json").read_text()
    assert "98.0625" not in shown
    assert "healthy" not in shown
    assert schema_digest(parse_schema(text, "s")) not in shown  # a guess could be compared with it
    assert "keep schema.toml to yourself" in shown
    assert (out / "schema.toml").stat().st_mode & 0o077 == 0
    assert predict(out, tmp_path / "training.csv").classes[0] == "healthy"
    cells = [Guarantee.from_dict(cell) for cell in json.loads((out / "model-card.json").read_text())["guarantees"]]
    assert all(cell.caveat(CaveatKind.PRIVATE_STATISTICS) is not None for cell in cells)


def test_a_number_is_predicted_in_its_own_unit_and_within_its_range(tmp_path: Path) -> None:
    text = """
        target = "weight"
        columns.height = { type = "number", low = 100, high = 200 }
        columns.weight = { type = "number", low = 20, high = 120, unit = "kg", outside = "clip" }
    """
    schema = parse_schema(text, "s")
    path = tmp_path / "people.csv"
    path.write_text("height,weight\n" + "".join(f"{100 + row},{20 + row}\n" for row in range(100)))
    everyone = table_examples(read_table(path, schema))
    data = replace(from_tensors("people", everyone, everyone, task=schema.task, features="public"), schema=schema)
    settings = SHORT | {"data.records": 25, "local.rate": 0.2, "stop.rounds": 10}
    run("fedavg", settings, seed=1, out=tmp_path / "run", workers=1, dataset=data)
    path.write_text("height\n100\n150\n200\n")
    predictions = predict(tmp_path / "run", path, out=tmp_path / "out.csv")
    assert np.allclose(predictions.values, [20, 70, 120], atol=3)
    assert predictions.values.max() <= 120
    assert (tmp_path / "out.csv").read_text().startswith("row,weight (kg)\n1,2")
    assert "20 + (y + 1)·50 kg" in (tmp_path / "run" / "model-card.md").read_text()
    with pytest.raises(FedveilError, match="a number is predicted, which has no classes"):
        _ = predictions.classes


# What is refused


def test_another_model_or_schema_than_the_one_of_the_run_is_refused(tmp_path: Path) -> None:
    out = trained(tmp_path)
    files = RunFiles(out)
    schema, model, card = files.schema.read_text(), files.model.read_bytes(), files.card.read_text()
    files.schema.write_text(schema.replace("100.0", "101.0"))
    with pytest.raises(FedveilError, match=r"schema\.toml: not the schema that the run began with"):
        predict(out, tmp_path / "training.csv")
    files.schema.write_text(schema)
    files.model.write_bytes(model[:-1] + bytes([model[-1] ^ 1]))
    with pytest.raises(FedveilError, match=r"model\.safetensors: not the model that the run ended with"):
        predict(out, tmp_path / "training.csv")
    files.model.write_bytes(model)
    files.card.write_text(card.replace("fedavg", "fed-cdp"))
    with pytest.raises(FedveilError, match=r"model-card\.json: was changed after the run ended"):
        predict(out, tmp_path / "training.csv")
    files.write_ending(files.card, {"format": 1, "model": {"outputs": 2}})
    with pytest.raises(FedveilError, match=r"model-card\.json: not a model card of this version"):
        predict(out, tmp_path / "training.csv")
    files.card.unlink()
    with pytest.raises(FedveilError, match="has no model card"):
        predict(out, tmp_path / "training.csv")


def test_a_run_goes_on_with_the_schema_that_it_began_with_alone(tmp_path: Path) -> None:
    out = trained(tmp_path)
    (out / "result.json").unlink()
    (out / "model-card.json").unlink()
    renamed = dataset(tmp_path, parse_schema(SCHEMA.replace("sick =", "ill ="), "s"))
    with pytest.raises(FedveilError, match="began with another schema than these records have"):
        resume(out, workers=1, dataset=renamed)
    resume(out, workers=1, dataset=dataset(tmp_path, parse_schema(SCHEMA, "s")))
    assert len(predict(out, tmp_path / "training.csv")) == 100


def test_a_row_that_the_schema_does_not_allow_leaves_no_file(finished: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text("age,pain\n5,mild\n6,unbearable\n")
    with pytest.raises(FedveilError, match=r"new\.csv, line 3, column 'pain': 'unbearable' is none of its categories"):
        predict(finished, new, out=tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]
    new.write_text("age,pain\n")
    with pytest.raises(FedveilError, match=r"new\.csv: has no rows"):
        predict(finished, new, out=tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]


def test_rows_that_the_schema_leaves_out_keep_their_place(tmp_path: Path) -> None:
    out = trained(tmp_path, SCHEMA.replace('outside = "clip"', 'outside = "drop"'))
    new = tmp_path / "new.csv"
    new.write_text("age,pain\n95,mild\n500,mild\n1,mild\n")
    predictions = predict(out, new, out=tmp_path / "out.csv")
    assert predictions.classes == ["sick", None, "healthy"]
    assert (tmp_path / "out.csv").read_text().splitlines()[2] == "2,,,"


def test_a_run_without_a_schema_takes_arrays_of_its_records(tmp_path: Path) -> None:
    bare = replace(dataset(tmp_path, parse_schema(SCHEMA, "s")), schema=None)
    run("fedavg", SHORT, seed=1, out=tmp_path / "bare", workers=1, dataset=bare)
    with pytest.raises(FedveilError, match=r"training\.csv: the model takes no rows of a table"):
        predict(tmp_path / "bare", tmp_path / "training.csv")
    records = bare.validation.inputs
    expected = load_model(tmp_path / "bare")(records).softmax(dim=1).detach().numpy()
    np.save(tmp_path / "new.npy", records.numpy().astype(np.float64))
    for data in (records, records.numpy(), records.tolist(), str(tmp_path / "new.npy")):
        predictions = predict(tmp_path / "bare", data, out=tmp_path / "out.csv")
        assert np.allclose(predictions.values, expected, atol=1e-6)
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "row,class,probability of healthy,probability of sick"
    assert lines[20].startswith("20,")
    with pytest.raises(FedveilError, match=r"records have shape \[3\], and the model takes \[4\]"):
        predict(tmp_path / "bare", records[:, :3])
    with pytest.raises(FedveilError, match="record 1 holds a value that is not a finite number"):
        predict(tmp_path / "bare", [[0, 0, 0, 0], [0, float("inf"), 0, 0]])
    with pytest.raises(FedveilError, match="is empty"):
        predict(tmp_path / "bare", [])
    with pytest.raises(FedveilError, match="not a run directory"):
        predict(tmp_path, tmp_path / "training.csv")


def test_pictures_in_a_folder_are_brought_to_the_size_that_the_model_takes(tmp_path: Path, call: Any) -> None:
    from PIL import Image

    pictures = torch.zeros(40, 1, 8, 8, dtype=torch.uint8)
    labels = torch.arange(40) % 2
    pictures[labels == 1, :, :, 4:] = 255
    data = from_tensors("sides", (pictures, labels), (pictures, labels), class_names=("dark", "right"))
    run("fedavg", SHORT | {"data.records": 10}, seed=1, out=tmp_path / "run", workers=1, dataset=data)
    for name, picture in (("a", pictures[0, 0]), ("b/c", pictures[1, 0])):
        path = tmp_path / "new" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture.numpy()).resize((16, 16), Image.Resampling.NEAREST).convert("RGB").save(path)
    predictions = predict(tmp_path / "run", tmp_path / "new", out=tmp_path / "out.csv")
    assert predictions.names == ("a.png", "b/c.png")
    assert predictions.classes == ["dark", "right"]
    assert (tmp_path / "out.csv").read_text().splitlines()[2].startswith("b/c.png,right,")
    expected = load_model(tmp_path / "run")(pictures[:2] / 255).softmax(dim=1).detach().numpy()
    assert np.allclose(predictions.values, expected, atol=1e-6)
    assert predict(tmp_path / "run", tmp_path / "new" / "a.png").classes == ["dark"]
    code, out, err = call("predict", str(tmp_path / "run"), "--data", str(tmp_path / "new"))
    assert code == 0, err
    assert "class of 2 records; dark: 1; right: 1" in out
    (tmp_path / "empty").mkdir()
    with pytest.raises(FedveilError, match="empty: holds no pictures"):
        predict(tmp_path / "run", tmp_path / "empty")
    (tmp_path / "new" / "bad.png").write_bytes(b"no picture")
    with pytest.raises(FedveilError, match=r"bad\.png is not a picture"):
        predict(tmp_path / "run", tmp_path / "new", out=tmp_path / "none.csv")
    assert not (tmp_path / "none.csv").exists()


OWN_NETWORK = """
import pathlib
import torch
pathlib.Path("imported").touch()
def factory(input_shape, classes):
    return torch.nn.Linear(input_shape[0], classes)
"""


def test_code_that_a_run_names_is_imported_only_if_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_home_network.py").write_text(OWN_NETWORK)
    data = dataset(tmp_path, parse_schema(SCHEMA, "schema.toml"))
    settings = {key: value for key, value in SHORT.items() if key != "model.options"}
    settings["model.name"] = "own_home_network:factory"
    run("fedavg", settings, seed=1, out=tmp_path / "run", workers=1, dataset=data)
    monkeypatch.delitem(sys.modules, "own_home_network")
    (tmp_path / "imported").unlink()
    with pytest.raises(ArgumentError, match="made by 'own_home_network:factory', which would be imported"):
        predict(tmp_path / "run", tmp_path / "training.csv")
    assert not (tmp_path / "imported").exists()
    assert len(predict(tmp_path / "run", tmp_path / "training.csv", trust_code=True)) == 100
    assert (tmp_path / "imported").exists()


# The command


def test_the_command_writes_the_file_and_says_how_many_of_each_class(finished: Path, call: Any) -> None:
    Path("new.csv").write_text("age,pain\n95,mild\n3,mild\n4,\n")
    code, out, err = call("predict", str(finished), "--data", "new.csv")
    assert code == 0, err
    assert "disease of 3 records; healthy: 2; sick: 1" in out
    assert Path("predictions.csv").read_text().startswith("row,disease,")
    code, out, _ = call("predict", str(finished), "--data", "new.csv", "--json", "--out", "p.csv")
    assert json.loads(out)["classes"] == {"healthy": 2, "sick": 1}
    code, _, err = call("predict", str(finished), "--data", "none.csv")
    assert code == 2
    assert "none.csv: can't be read" in err
