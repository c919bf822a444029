"""Several methods on one task, compared in one table and one picture."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from series_follower import Follower, interrupt_at

from fedveil.accounting.plan import plan
from fedveil.accounting.route_caveats import LEAKED_BOUND
from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.core.openness import Openness
from fedveil.core.scores import MAIN_FIGURES
from fedveil.data.dataset import Dataset, Examples, from_tensors
from fedveil.data.public_scales import PublicScale
from fedveil.data.sets import cancer
from fedveil.runs.prepare import prepare
from fedveil.studies.compare import compare
from fedveil.studies.repeated_runs import USUAL_CELLS, chosen_cells, first_finite, mean_over_runs
from fedveil.studies.series import Done
from fedveil.studies.study import Study
from fedveil.zoo import ZOO


@pytest.fixture
def settings(tiny: dict[str, Any]) -> dict[str, Any]:
    return {**tiny, "seed": "none"}


def run(sources: list[str], settings: dict[str, Any], blobs: Dataset, **options: Any) -> Study:
    options = {"follower": Follower(), "workers": 1, **options}
    return compare(sources, settings, dataset=blobs, **options)


def test_every_method_has_a_row_with_its_result_and_its_cells(
    tmp_path: Path, settings: dict[str, Any], blobs: Dataset
) -> None:
    found = run(["fedavg", "fed-cdp"], settings, blobs, out=tmp_path / "c")
    plain, private = found.rows
    assert [plain["method"], private["method"]] == ["fedavg", "fed-cdp"]
    assert plain["epsilon"]["record × server"] == {"promised": "inf", "spent": "inf", "relation": None}
    assert not plain["claimed"]
    prepared = prepare(resolve("fed-cdp", settings), blobs)
    (cell, _) = USUAL_CELLS
    epsilon = private["epsilon"]["record × server"]
    assert epsilon["promised"] == plan(prepared.context).of(*cell).epsilon
    assert 0 < epsilon["spent"] <= epsilon["promised"]
    assert private["claimed"][0]["epsilon"] != epsilon["promised"]
    assert private["best"] >= private["accuracy"]
    assert not found.notes
    assert not found.failed


def test_the_tables_and_the_picture_are_written(tmp_path: Path, settings: dict[str, Any], blobs: Dataset) -> None:
    found = run(["fedavg", "fed-cdp"], settings, blobs, out=tmp_path / "c", seeds=(1, 2))
    assert found.picture is not None
    assert found.picture.read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "c/table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["accuracy"]) for row in rows] == [row["accuracy"] for row in found.rows]
    assert math.isinf(float(rows[0]["epsilon record × server spent"]))
    text = (tmp_path / "c/table.md").read_text()
    assert "| fed-cdp |" in text
    assert "∞" in text
    assert "- not private: seeded" in text


def test_seeds_give_mean_and_deviation_and_say_that_they_are_not_private(
    tmp_path: Path, settings: dict[str, Any], blobs: Dataset
) -> None:
    found = run(["fed-cdp"], settings, blobs, out=tmp_path / "c", seeds=(1, 2, 3))
    accuracies = [
        run(["fed-cdp"], settings, blobs, out=tmp_path / f"single{seed}", seeds=(seed,)).rows[0]["accuracy"]
        for seed in (1, 2, 3)
    ]
    (row,) = found.rows
    assert row["accuracy"] == pytest.approx(sum(accuracies) / 3)
    mean = sum(accuracies) / 3
    assert row["deviation"] == pytest.approx(math.sqrt(sum((value - mean) ** 2 for value in accuracies) / 2))
    assert found.notes == ["not private: seeded"]


def test_an_unseeded_comparison_does_not_call_itself_seeded(
    tmp_path: Path, settings: dict[str, Any], blobs: Dataset
) -> None:
    found = run(["fedavg"], settings, blobs, out=tmp_path / "c")
    assert not found.rows[0]["seeded"]
    assert found.rows[0]["deviation"] is None
    assert "seeded" not in (tmp_path / "c/table.md").read_text()


def test_an_interrupted_comparison_ends_with_the_same_table(
    tmp_path: Path, settings: dict[str, Any], blobs: Dataset
) -> None:
    options: dict[str, Any] = {"seeds": (1, 2), "rounds": 3}
    cut = interrupt_at("fed-cdp-seed1", 2)
    with pytest.raises(KeyboardInterrupt):
        run(["fedavg", "fed-cdp"], settings, blobs, out=tmp_path / "cut", follower=cut, **options)
    assert not (tmp_path / "cut/table.md").exists()
    resumed = run(["fedavg", "fed-cdp"], settings, blobs, out=tmp_path / "cut", **options)
    whole = run(["fedavg", "fed-cdp"], settings, blobs, out=tmp_path / "whole", **options)
    timeless = [[{**row, "seconds": 0} for row in found.rows] for found in (resumed, whole)]
    assert timeless[0] == timeless[1]


def test_every_method_of_the_zoo_can_be_compared(tmp_path: Path, settings: dict[str, Any], blobs: Dataset) -> None:
    found = run(list(ZOO), settings, blobs, out=tmp_path / "c", rounds=1)
    assert [row["method"] for row in found.rows] == list(ZOO)


def test_different_data_sets_are_refused_and_other_differences_told(
    tmp_path: Path, settings: dict[str, Any], blobs: Dataset
) -> None:
    (tmp_path / "one.toml").write_text('method = "fedavg"\n[data]\nname = "cancer"\n')
    (tmp_path / "two.toml").write_text('method = "fedavg"\n[data]\nname = "adult"\n')
    with pytest.raises(FedveilError, match="one trains on cancer and two on adult"):
        compare([tmp_path / "one.toml", tmp_path / "two.toml"], follower=Follower(), out=tmp_path / "c")
    (tmp_path / "two.toml").write_text('method = "fedavg"\n[model]\noptions = { hidden = [5, 4] }\n')
    settings.pop("model.options.hidden")
    found = run(["fedavg", str(tmp_path / "two.toml")], settings, blobs, out=tmp_path / "c")
    assert found.notes == ["not the same task: two differs from fedavg in model.options.hidden"]


@pytest.mark.parametrize(
    ("sources", "complaint"),
    [
        ([], "nothing to compare"),
        (["fedavg", "fedavg"], "fedavg: named twice"),
        (["fedavg", "fed-cpd"], "fed-cpd: neither a method"),
    ],
)
def test_bad_sources_are_refused_before_anything_is_made(
    tmp_path: Path, settings: dict[str, Any], blobs: Dataset, sources: list[str], complaint: str
) -> None:
    with pytest.raises(FedveilError, match=complaint):
        run(sources, settings, blobs, out=tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_a_spec_file_called_like_a_method_is_refused(tmp_path: Path, settings: dict[str, Any], blobs: Dataset) -> None:
    (tmp_path / "fedavg.toml").write_text('method = "fedsgd"\n')
    with pytest.raises(FedveilError, match="fedavg: named twice"):
        run(["fedavg", str(tmp_path / "fedavg.toml")], settings, blobs, out=tmp_path / "c")


def test_a_method_that_failed_stays_in_the_table(tmp_path: Path, settings: dict[str, Any], blobs: Dataset) -> None:
    (tmp_path / "wild.toml").write_text(
        'method = "fedavg"\nlocal = { steps = 1, rate = 1e12 }\naggregate = { rate = 1e30 }\n'
    )
    settings.pop("local.steps")
    found = run(["fedsgd", str(tmp_path / "wild.toml")], settings, blobs, out=tmp_path / "c")
    assert found.rows[1]["accuracy"] is None
    assert "wild: round 0: the model is no longer finite" in found.failed[0]
    assert "| wild | failed |" in (tmp_path / "c/table.md").read_text()
    assert found.picture is not None
    assert found.picture.exists()


def test_the_drawn_cell_is_the_first_finite_one_or_the_one_asked_for(settings: dict[str, Any], blobs: Dataset) -> None:
    private = plan(prepare(resolve("fed-cdp", settings), blobs).context)
    plain = plan(prepare(resolve("fedavg", settings), blobs).context)
    assert first_finite(private, chosen_cells(None, None)) == USUAL_CELLS[0]
    loud = plan(prepare(resolve("fed-cdp", settings | {"example.sigma": 0.2}), blobs).context)
    assert first_finite(loud, USUAL_CELLS[1:]) is None  # a client is a group of its records: vacuous
    assert first_finite(plain, USUAL_CELLS) is None
    assert chosen_cells("client", "peer") == (("client", "peer"),)
    assert chosen_cells(None, "released") == (("record", "released"),)


def test_accuracies_are_averaged_where_all_runs_were_evaluated(
    tmp_path: Path, settings: dict[str, Any], blobs: Dataset
) -> None:
    run(["fedavg"], settings | {"evaluation.every": 3}, blobs, out=tmp_path / "c", seeds=(1,), rounds=5)
    from fedveil.runs.run import resume
    from fedveil.studies.series import round_events

    path = tmp_path / "c/runs/fedavg-seed1"
    done = Done("a", resume(path), tuple(round_events(path)))
    assert mean_over_runs([done], MAIN_FIGURES[0])["rounds"] == [3.0, 5.0]
    shorter = Done("b", done.result, done.rounds[:4])
    assert mean_over_runs([done, shorter], MAIN_FIGURES[0])["rounds"] == [3.0]
    assert mean_over_runs([done, done], MAIN_FIGURES[0])["deviation"] == [0.0, 0.0]
    assert mean_over_runs([Done("c", None, done.rounds, FedveilError("failed"))], MAIN_FIGURES[0]) == {
        "rounds": [],
        "values": [],
        "deviation": [],
    }


def test_a_calibrated_comparison_is_continued_by_the_same_command_and_by_no_other(
    tmp_path: Path, settings: dict[str, Any], blobs: Dataset
) -> None:
    calibrated = {**settings, "privacy.epsilon": 3.0, "privacy.calibrate": True}
    first = run(["fed-cdp"], calibrated, blobs, out=tmp_path / "c")
    again = Follower()
    second = run(["fed-cdp"], calibrated, blobs, out=tmp_path / "c", follower=again)
    assert not again.trained
    assert first.rows == second.rows
    with pytest.raises(FedveilError, match=r"another privacy\.epsilon \(3\.0 there, 4\.0 now\); ask for the same runs"):
        run(["fed-cdp"], {**calibrated, "privacy.epsilon": 4.0}, blobs, out=tmp_path / "c")
    budgeted = {**calibrated, "privacy.calibrate": False}
    run(["fed-cdp"], budgeted, blobs, out=tmp_path / "b")
    with pytest.raises(FedveilError, match=r"another privacy\.calibrate \(false there, true now\)"):
        run(["fed-cdp"], calibrated, blobs, out=tmp_path / "b")


def test_what_is_finished_is_not_shown_for_other_records_of_the_same_name(
    tmp_path: Path, settings: dict[str, Any], blobs: Dataset
) -> None:
    run(["fed-cdp"], settings, blobs, out=tmp_path / "c")
    other = from_tensors("blobs", Examples(blobs.train.inputs + 1, blobs.train.labels), blobs.validation)
    with pytest.raises(FedveilError, match="the records are not those that the run began with"):
        run(["fed-cdp"], settings, other, out=tmp_path / "c")


def test_what_is_finished_on_other_features_of_a_named_set_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"data.name": "cancer", "data.clients": 4, "cohort.size": 2, "local.steps": 2, "stop.rounds": 1}
    options = {"follower": Follower(), "workers": 1, "out": tmp_path / "c"}
    compare(["fedavg"], short, **options)
    assert len(compare(["fedavg"], short, **options).rows) == 1
    monkeypatch.setattr(cancer, "COLUMN_SCALES", (PublicScale(14, 5), *cancer.COLUMN_SCALES[1:]))
    with pytest.raises(FedveilError, match="the records are not those that the run began with"):
        compare(["fedavg"], short, **options)


def test_statistics_of_private_records_are_told_beside_every_number(
    tmp_path: Path, settings: dict[str, Any], blobs: Dataset
) -> None:
    scaled = replace(blobs, features=Openness.PRIVATE)
    (row,) = run(["fed-cdp"], settings | {"stop.rounds": 1}, scaled, out=tmp_path / "c").rows
    assert row["void"]
    assert [caveat.text for caveat in scaled.caveats] == row["caveats"]
    assert "(NOT private)" in (tmp_path / "c/table.md").read_text(encoding="utf-8")


def test_a_bound_that_is_read_without_noise_is_told_beside_every_number(
    tmp_path: Path, settings: dict[str, Any], blobs: Dataset
) -> None:
    found = run(["geyer"], settings | {"stop.rounds": 1}, blobs, out=tmp_path / "c")
    assert found.rows[0]["void"]
    assert LEAKED_BOUND.text in found.rows[0]["caveats"]
    assert "(NOT private)" in (tmp_path / "c/table.md").read_text(encoding="utf-8")
