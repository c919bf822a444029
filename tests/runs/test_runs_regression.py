"""Runs whose labels are numbers, and runs with an objective of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from series_follower import Follower

from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.core.objectives import CrossEntropy, Huber, SquaredError
from fedveil.core.tasks import Regression
from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset, Examples, from_tensors, scaled_labels
from fedveil.engine.batched import Engine
from fedveil.engine.fused import Fused
from fedveil.report.terminal.run_tables import comparison_table
from fedveil.runs.files import RunFiles
from fedveil.runs.prepare import prepare
from fedveil.runs.run import run
from fedveil.studies.attack import attack
from fedveil.studies.audit import audit
from fedveil.studies.compare import compare
from fedveil.studies.histories import show
from fedveil.studies.sweep import Axis, sweep

RENT = Regression(0.0, 2000.0, "euro")


def flats(count: int, seed: int) -> Examples:
    """Rents that follow from size and distance, with some noise."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(count, 4, generator=generator) * 2 - 1
    rent = 1000 + 500 * inputs[:, 0] - 300 * inputs[:, 1] + 20 * torch.randn(count, generator=generator)
    return Examples(inputs, scaled_labels(rent, RENT))


@pytest.fixture(scope="module")
def rents() -> Dataset:
    return from_tensors("rents", flats(300, 1), flats(90, 2), task=RENT, features="public", validation_records="public")


@pytest.fixture
def small(tiny: dict[str, Any]) -> dict[str, Any]:
    return tiny | {"data.name": "rents", "model.options.hidden": [], "local.rate": 0.1}


def test_a_number_has_a_model_of_one_output_and_squared_error(small: dict[str, Any], rents: Dataset) -> None:
    job = prepare(resolve("fedavg", small), rents).job
    assert job.objective == SquaredError()
    assert job.model(rents.train.inputs[:5]).shape == (5, 1)
    assert isinstance(Engine(job).gradients, Fused)
    assert prepare(resolve("fedavg", small | {"objective": {"kind": "huber", "width": 0.2}}), rents).job.objective == (
        Huber(0.2)
    )


@pytest.mark.parametrize("objective", ["squared", "huber"])
def test_a_training_learns_the_numbers(objective: str, small: dict[str, Any], rents: Dataset, tmp_path: Path) -> None:
    settings = small | {"objective": objective, "stop.rounds": 20}
    result = run("fedavg", settings, out=tmp_path / "run", workers=1, dataset=rents)
    assert result.loss < 0.01  # the labels vary by 0.3 to both sides
    assert not result.diverged
    written = json.loads((tmp_path / "run" / "run.json").read_text())
    assert written["task"] == {"kind": "regression", "low": 0.0, "high": 2000.0, "unit": "euro"}
    assert written["objective"]["kind"] == objective


@pytest.mark.parametrize("partition", ["shards", "random", "dirichlet", "copy"])
def test_numbers_are_divided_by_every_partition(partition: str, small: dict[str, Any], rents: Dataset) -> None:
    assert prepare(resolve("fedavg", small | {"data.partition": partition}), rents).sites.sizes == (30,) * 10


def test_what_does_not_fit_the_task_is_refused_before_there_is_a_run(
    small: dict[str, Any], tiny: dict[str, Any], rents: Dataset, blobs: Dataset, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with pytest.raises(FedveilError, match=r"objective\.kind: cross-entropy does not fit"):
        run("fedavg", small | {"objective": "cross-entropy"}, out=out, dataset=rents)
    with pytest.raises(FedveilError, match=r"objective\.kind: huber does not fit"):
        run("fedavg", tiny | {"objective": "huber"}, out=out, dataset=blobs)
    with pytest.raises(FedveilError, match=r"objective\.weights: 2 weights for 3 classes"):
        run("fedavg", tiny | {"objective": {"kind": "cross-entropy", "weights": [1, 2]}}, out=out, dataset=blobs)
    assert not out.exists()


def test_weights_turn_the_answers_towards_the_heavy_class(tiny: dict[str, Any], blobs: Dataset, tmp_path: Path) -> None:
    answers = {}
    for name, weights in (("even", [1, 1, 1]), ("heavy", [1, 1, 500])):
        settings = tiny | {"objective": {"kind": "cross-entropy", "weights": weights}, "model.options.hidden": []}
        prepared = prepare(resolve("fedavg", settings), blobs)
        assert prepared.job.objective == CrossEntropy(tuple(map(float, weights)))
        run("fedavg", settings, out=tmp_path / name, workers=1, dataset=blobs)
        state = RunFiles(tmp_path / name).load_checkpoint(prepared.layout)
        assert state is not None
        prepared.layout.load(prepared.model, state.parameters)
        answers[name] = int((prepared.model(blobs.validation.inputs).argmax(dim=1) == 2).sum())
    assert answers["heavy"] > answers["even"]


def test_the_promise_does_not_depend_on_the_objective(tiny: dict[str, Any], blobs: Dataset, tmp_path: Path) -> None:
    cells = []
    for name, weights in (("even", [1, 1, 1]), ("heavy", [1, 1, 500])):
        settings = tiny | {"objective": {"kind": "cross-entropy", "weights": weights}}
        result = run("fed-cdp", settings, out=tmp_path / name, workers=1, dataset=blobs)
        cells.append(result.of(Unit.RECORD, View.SERVER))
    assert cells[0] == cells[1]
    assert cells[0].finite


def test_an_attack_finds_the_record_and_the_number_behind_an_update(small: dict[str, Any], rents: Dataset) -> None:
    settings = small | {"batch.size": 1, "local.steps": 1, "model.options": {"hidden": [12], "activation": "sigmoid"}}
    settings |= {"data.records": 3, "data.partition": "random"}
    result = attack("fedavg", settings, victims=3, iterations=100, dataset=rents, view="server", attack="cpl")
    assert result.summary.success_rate == 1.0
    assert result.summary.means["label_accuracy"] == 1.0


@pytest.mark.parametrize("unit", ["record", "client"])
def test_an_audit_plants_canaries_among_numbers(unit: str, small: dict[str, Any], rents: Dataset) -> None:
    method, view = ("fed-cdp", "server") if unit == "record" else ("fed-sdp-client", "server")
    audited = audit(method, small, canaries=10, rounds=2, unit=unit, view=view, dataset=rents, workers=1)
    assert audited.verdict != "contradicted"


def test_clients_own_models_of_numbers_are_measured_in_the_unit(
    small: dict[str, Any], rents: Dataset, tmp_path: Path
) -> None:
    settings = small | {"personal": "identity", "data.test": 12, "stop.rounds": 6, "data.partition": "dirichlet"}
    result = run("fedavg", settings, out=tmp_path / "run", workers=1, dataset=rents)
    assert result.own_accuracy is result.personal_accuracy is result.accuracy is None
    assert result.own_mae is not None
    assert result.personal_mae is not None
    assert 5 < result.own_mae < 500  # euro, not parts of the range
    assert 5 < result.personal_mae < 500


def test_comparisons_of_numbers_are_by_their_error_and_the_best_is_the_smallest(
    small: dict[str, Any], rents: Dataset, tmp_path: Path
) -> None:
    settings = small | {"seed": "none", "local.steps": 2}
    compared = compare(
        ["fedavg", "fed-cdp"], settings, follower=Follower(), out=tmp_path / "compare", seeds=(1, 2), dataset=rents
    )
    headings, lines = comparison_table(compared.rows)
    assert headings[1] == "RMSE (euro)"
    for row in compared.rows:
        assert (row["figure"], row["unit"], row["majority"]) == ("rmse", "euro", None)
        assert 0 < row["best"] <= row["rmse"]
    assert "failed" not in lines[0]
    swept = sweep(
        "fedavg",
        [Axis("local.rate", (0.01, 0.1))],
        {key: value for key, value in settings.items() if key not in ("local.rate", "seed")},
        follower=Follower(),
        out=tmp_path / "sweep",
        seeds=1,
        dataset=rents,
    )
    assert swept.rows[1]["rmse"] < swept.rows[0]["rmse"]
    assert swept.picture is not None
    assert swept.picture.is_file()
    (history,), picture = show([tmp_path / "sweep" / "runs" / "local.rate=0.1-seed1"], tmp_path / "show.png")
    assert "RMSE" in history.line
    assert "euro" in history.line
    assert picture.is_file()
