"""A grid of settings times seeds."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from series_follower import Follower, interrupt_at

from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset
from fedveil.studies.study import Study
from fedveil.studies.sweep import Axis, parse_axis, point_name, sweep


@pytest.fixture
def settings(tiny: dict[str, Any]) -> dict[str, Any]:
    return {**tiny, "stop.rounds": 2}


def run(axes: list[Axis], settings: dict[str, Any], blobs: Dataset, out: Path, **options: Any) -> Study:
    options = {"follower": Follower(), "seeds": 2, "workers": 1, **options}
    return sweep("fed-cdp", axes, settings, out=out, dataset=blobs, **options)


def test_every_point_is_trained_with_every_seed(tmp_path: Path, settings: dict[str, Any], blobs: Dataset) -> None:
    axes = [Axis("example.sigma", (1.0, 4.0)), Axis("example.clip.bound", (1, 2))]
    found = run(axes, settings, blobs, tmp_path / "s")
    assert len(list((tmp_path / "s/runs").iterdir())) == 8
    assert [tuple(row["point"].values()) for row in found.rows] == [(1.0, 1), (1.0, 2), (4.0, 1), (4.0, 2)]
    assert all(row["runs"] == 2 and row["deviation"] is not None for row in found.rows)
    assert found.notes == ["not private: seeded"]
    epsilons = [row["epsilon"]["record × server"]["promised"] for row in found.rows]
    assert epsilons[0] == pytest.approx(epsilons[1])  # the bound does not matter
    assert epsilons[2] < epsilons[0] / 2  # more noise, less ε


def test_the_table_and_for_up_to_two_keys_the_picture_are_written(
    tmp_path: Path, settings: dict[str, Any], blobs: Dataset
) -> None:
    one, two, three = (
        Axis("example.sigma", (1.0, 20.0)),
        Axis("local.steps", (2, 3)),
        Axis("method", ("fed-cdp-decay",)),
    )
    for axes in ([one], [one, two], [three], [one, two, three]):
        out = tmp_path / str(len(list(tmp_path.iterdir())))
        found = run(axes, {k: v for k, v in settings.items() if k != "local.steps"}, blobs, out, seeds=1, rounds=1)
        assert (found.picture is not None) == (len(axes) < 3)
        assert found.picture is None or found.picture.read_bytes().startswith(b"\x89PNG")
        with (out / "table.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert [float(row["accuracy"]) for row in rows] == [row["accuracy"] for row in found.rows]
        assert [row[axes[0].key] for row in rows] == [str(row["point"][axes[0].key]) for row in found.rows]
        assert "- not private: seeded" in (out / "table.md").read_text()


def test_an_interrupted_sweep_goes_on_to_the_same_table(
    tmp_path: Path, settings: dict[str, Any], blobs: Dataset
) -> None:
    axes = [Axis("example.sigma", (1.0, 4.0))]
    cut = interrupt_at("example.sigma=4.0-seed1", 1)
    with pytest.raises(KeyboardInterrupt):
        run(axes, settings, blobs, tmp_path / "cut", follower=cut)
    rest = Follower()
    resumed = run(axes, settings, blobs, tmp_path / "cut", follower=rest)
    assert rest.trained == ["example.sigma=4.0-seed1", "example.sigma=4.0-seed2"]
    whole = run(axes, settings, blobs, tmp_path / "whole")
    assert [{**row, "seconds": 0} for row in resumed.rows] == [{**row, "seconds": 0} for row in whole.rows]


def test_a_sweep_may_be_given_more_values_and_seeds(tmp_path: Path, settings: dict[str, Any], blobs: Dataset) -> None:
    run([Axis("example.sigma", (1.0,))], settings, blobs, tmp_path / "s", seeds=1)
    more = Follower()
    run([Axis("example.sigma", (1.0, 2.0))], settings, blobs, tmp_path / "s", seeds=2, follower=more)
    assert more.finished_before == 1
    assert len(more.trained) == 3


def test_a_point_that_diverges_is_a_failed_row(tmp_path: Path, settings: dict[str, Any], blobs: Dataset) -> None:
    wild = {**settings, "local.steps": 1, "local.rate": 1e12, "aggregate.rate": 1e30}
    found = sweep(
        "fedavg", [Axis("local.rate", (0.1, 1e12))], {k: v for k, v in wild.items() if k != "local.rate"},
        out=tmp_path / "s", dataset=blobs, follower=Follower(), seeds=1, workers=1,
    )  # fmt: skip
    assert len(found.failed) == sum(row["accuracy"] is None for row in found.rows) == 1
    assert "failed" in (tmp_path / "s/table.md").read_text()


MISTAKES: list[tuple[list[Axis], dict[str, Any], str]] = [
    ([], {}, "nothing to sweep"),
    ([Axis("example.sgima", (1,))], {}, "unknown key sgima; did you mean sigma"),
    ([Axis("nonsense", (1,))], {}, "nonsense: unknown key"),
    ([Axis("example.sigma", (1, 2)), Axis("example.sigma", (3,))], {}, "over: example.sigma is given twice"),
    ([Axis("example.sigma", (1, 1))], {}, "a value is given twice"),
    ([Axis("local.steps", (1, 2))], {}, "over: local.steps is also set to one value"),
    ([Axis("stop.rounds", (1, 2))], {"rounds": 3}, "over: stop.rounds is also set to one value"),
    ([Axis("seed", (1, 2))], {}, "seed can't be swept; seeds = N"),
    ([Axis("example.sigma", (1, -1))], {}, "must not be negative"),
    ([Axis("example.sigma", (1, 2))], {"seeds": 0}, "seeds: must be at least 1"),
    ([Axis("example.sigma", (1, 2))], {"seeds": 501}, "1,002 runs are more than the 1,000"),
    ([Axis("example.sigma", (1, 2))], {"workers": 0}, "workers: must be at least 1"),
    ([Axis("cohort.size", (4, 400))], {}, "there are only 10"),
]


@pytest.mark.parametrize(("axes", "options", "complaint"), MISTAKES, ids=[words for *_, words in MISTAKES])
def test_a_mistake_is_refused_before_anything_is_made(
    tmp_path: Path, settings: dict[str, Any], blobs: Dataset, axes: list[Axis], options: dict[str, Any], complaint: str
) -> None:
    settings = {key: value for key, value in settings.items() if key not in ("seed", "stop.rounds")}
    with pytest.raises(FedveilError, match=complaint):
        run(axes, settings, blobs, tmp_path / "s", **options)
    assert not (tmp_path / "s").exists()


def test_values_are_read_as_toml_or_as_words() -> None:
    assert parse_axis("example.sigma=0.5, 1,2") == Axis("example.sigma", (0.5, 1, 2))
    assert parse_axis("method=fedavg,fed-cdp") == Axis("method", ("fedavg", "fed-cdp"))
    assert parse_axis('batch={kind="poisson",size=5},full').values == ({"kind": "poisson", "size": 5}, "full")
    assert parse_axis("model.options.hidden=[8, 4],[16]").values == ([8, 4], [16])
    assert parse_axis('a="x,y",z').values == ("x,y", "z")


@pytest.mark.parametrize("text", ["example.sigma", "example.sigma=", "=1", "a=1,,2", "a=1,", ".a=1", "a..b=1"])
def test_what_is_not_a_key_with_values_is_refused(text: str) -> None:
    with pytest.raises(FedveilError, match="expected key=value,value"):
        parse_axis(text)


def test_a_point_has_a_file_name_of_its_own() -> None:
    assert point_name({"example.sigma": 0.5, "method": "fed-cdp"}) == "example.sigma=0.5,method=fed-cdp"
    strange = [point_name({"model.name": value}) for value in ("a/../b", "a_.._b", "ä" * 300, ["a", 1])]
    assert len(set(strange)) == 4
    assert all("/" not in name and len(name) < 150 and name.isascii() for name in strange)
