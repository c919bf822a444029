"""What a run measures of its model, on all validation records and on each site's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics

from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.core.objectives import SquaredError
from fedveil.core.openness import Openness
from fedveil.core.scores import FIGURES, ClassScores
from fedveil.core.tasks import Classification, Regression
from fedveil.data.dataset import Dataset, Examples, from_tensors
from fedveil.data.own_sites import from_sites
from fedveil.report.terminal.run_progress import SilentReporter
from fedveil.runs.result import Result, has_diverged
from fedveil.runs.result_lines import result_lines
from fedveil.runs.run import resume, run
from fedveil.studies.predict import load_model
from fedveil.studies.report import report

SIZES = {"north": 40, "south": 60, "west": 200}


def blob(count: int, seed: int) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    labels = (generator.random(count) < 0.3).astype(np.int64)
    return generator.normal(size=(count, 4)) + labels[:, None], labels


@pytest.fixture(scope="module")
def hospitals() -> Dataset:
    return from_sites({name: blob(size, size) for name, size in SIZES.items()}, name="hospitals")


SHORT: dict[str, Any] = {"stop.rounds": 3, "local.steps": 5, "model.name": "mlp", "seed": 1}


class Listening(SilentReporter):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def round(self, done: int, rounds: int, measured: str) -> None:
        self.lines.append(measured)


def test_each_sites_figures_are_those_of_the_published_model_on_its_records(hospitals: Dataset, tmp_path: Path) -> None:
    result = run("fedavg", SHORT, out=tmp_path / "run", workers=1, dataset=hospitals)
    assert result.scores is not None
    assert [one.site for one in result.scores.sites] == list(SIZES)
    model = load_model(tmp_path / "run")
    for site, one in zip(hospitals.sites, result.scores.sites, strict=True):
        rows = slice(site.validation.start, site.validation.stop)
        labels = hospitals.validation.labels[rows].numpy()
        with torch.no_grad():
            shares = torch.softmax(model(hospitals.validation.inputs[rows]).double(), dim=1).numpy()
        assert isinstance(one.scores, ClassScores)
        assert one.scores.records == len(labels) == len(site.validation)
        assert one.scores.accuracy == metrics.accuracy_score(labels, shares.argmax(axis=1))
        assert one.scores.auc == pytest.approx(metrics.roc_auc_score(labels, shares[:, 1]))
    assert result.accuracy == result.scores.main


def test_scores_and_events_are_the_same_bits_for_any_number_of_workers(hospitals: Dataset, tmp_path: Path) -> None:
    results = [run("fed-cdp", SHORT, out=tmp_path / str(n), workers=n, dataset=hospitals) for n in (1, 2)]
    assert results[0].scores == results[1].scores
    events = [
        [
            {key: event.get(key) for key in (*FIGURES, "loss", "majority")}
            for event in map(json.loads, (tmp_path / str(n) / "events.jsonl").read_text().splitlines())
        ]
        for n in (1, 2)
    ]
    assert events[0] == events[1]


def test_the_lines_of_a_run_and_its_files_have_the_figures(hospitals: Dataset, tmp_path: Path) -> None:
    follower = Listening()
    result = run("fedavg", SHORT, out=tmp_path / "run", workers=1, dataset=hospitals, reporter=follower)
    assert all("accuracy 0." in line and "(majority 0." in line and "AUC 0." in line for line in follower.lines)
    written = json.loads((tmp_path / "run" / "result.json").read_text())["scores"]
    assert written["overall"]["auc"] is not None
    assert {one["site"] for one in written["sites"]} == set(SIZES)
    assert written["worst_site"]["accuracy"]["site"] in SIZES
    again = resume(tmp_path / "run")
    assert (again.scores, again.diverged) == (result.scores, False)


def test_a_model_that_learned_nothing_is_said_to_have_learned_nothing(tmp_path: Path) -> None:
    labels = torch.tensor([0, 0, 0, 0, 1] * 20)
    mine = from_tensors("noise", Examples(torch.zeros(100, 3), labels), Examples(torch.zeros(100, 3), labels), 2)
    settings = SHORT | {"data.name": "noise", "data.clients": 4, "data.records": 20, "cohort.size": 2}
    settings |= {"data.partition": "random"}
    result = run("fedavg", settings, out=tmp_path / "run", workers=1, dataset=mine)
    said = " ".join(" ".join(result_lines(result)).split())
    assert "no better than always saying '0', which is right for 0.8000" in said
    report([tmp_path / "run"], tmp_path / "page.html")
    assert "No better than a guess" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("validation", "overall", "sites"),
    [(Openness.PUBLIC, True, True), (Openness.UNDECLARED, True, False), (Openness.PRIVATE, False, False)],
)
def test_for_release_sites_have_figures_only_if_their_records_are_declared_public(
    hospitals: Dataset, tmp_path: Path, validation: Openness, overall: bool, sites: bool
) -> None:
    mine = replace(hospitals, features=Openness.PUBLIC, validation_records=validation)
    result = run("fed-cdp", SHORT | {"seed": "none"}, out=tmp_path / "run", workers=1, dataset=mine)
    assert result.scores is not None
    (facts,) = report([tmp_path / "run"], tmp_path / "page.html", release=True).runs
    assert (facts.scores is not None) == overall
    assert bool(facts.figures) == overall
    assert bool(facts.scores and facts.scores.sites) == sites
    page = (tmp_path / "page.html").read_text()
    assert ("mean of the sites" in page) == sites
    (inside,) = report([tmp_path / "run"], tmp_path / "page.html").runs
    assert inside.scores == result.scores


def test_for_release_nothing_is_told_in_a_range_that_may_be_private(tmp_path: Path) -> None:
    labels = torch.linspace(-1, 1, 60)
    part = Examples(labels[:, None].expand(-1, 3).contiguous(), labels)
    mine = from_tensors("ages", part, part, task=Regression(3.0, 71.0), features="private", validation_records="public")
    settings = SHORT | {"data.name": "ages", "data.clients": 3, "data.records": 20, "data.partition": "random"}
    run("fed-cdp", settings | {"cohort.size": 2}, out=tmp_path / "run", workers=1, dataset=mine)
    (facts,) = report([tmp_path / "run"], tmp_path / "page.html", release=True).runs
    assert facts.scores is None
    assert set(facts.figures) == {"r2"}


def test_a_run_goes_on_with_the_task_it_began_with(hospitals: Dataset, tmp_path: Path) -> None:
    class Stopping(SilentReporter):
        def round(self, done: int, rounds: int, measured: str) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("fedavg", SHORT, out=tmp_path / "run", workers=1, dataset=hospitals, reporter=Stopping())
    other = replace(hospitals, task=Classification(("no", "yes")))
    with pytest.raises(FedveilError, match="the run began with another task"):
        resume(tmp_path / "run", workers=1, dataset=other)
    assert resume(tmp_path / "run", workers=1, dataset=hospitals).rounds == 3


def test_a_result_of_an_older_version_has_an_accuracy_and_no_scores(hospitals: Dataset, tmp_path: Path) -> None:
    made = run("fedavg", SHORT, out=tmp_path / "run", workers=1, dataset=hospitals)
    newer = ("scores", "own_mae", "personal_mae", "diverged")
    table = {key: value for key, value in made.to_dict().items() if key not in newer}
    method = resolve(tmp_path / "run" / "spec.toml").method
    old = Result.from_dict(table, made.run, method)
    assert (old.scores, old.accuracy, old.main, old.diverged) == (None, made.accuracy, made.accuracy, False)
    assert Result.from_dict(table | {"loss": 1e9}, made.run, method).diverged
    with pytest.raises(TypeError):
        Result.from_dict(made.to_dict() | {"scores": "good"}, made.run, method)


def test_numbers_diverge_long_before_a_cross_entropy_would(tmp_path: Path) -> None:
    assert has_diverged(500.0, SquaredError())
    assert not has_diverged(500.0)
    assert not has_diverged(4.0, SquaredError())
    assert has_diverged(float("nan"), SquaredError())
    labels = torch.linspace(-1, 1, 60)
    part = Examples(labels[:, None].expand(-1, 3).contiguous(), labels)
    mine = from_tensors("line", part, part, task=Regression(0.0, 1.0))
    settings = SHORT | {"data.name": "line", "data.clients": 3, "data.records": 20, "data.partition": "random"}
    settings |= {"cohort.size": 2, "local.rate": 3.0, "model.options.hidden": [], "stop.rounds": 1, "local.steps": 8}
    result = run("fedavg", settings, out=tmp_path / "run", workers=1, dataset=mine)
    assert 100 < result.loss < 1e30
    assert result.diverged
    assert report([tmp_path / "run"], tmp_path / "page.html").runs[0].diverged
