"""A set of runs in a directory: finished ones are read, begun ones resumed, anything else is refused."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from series_follower import Follower, interrupt_at

from fedveil.config.spec import resolve
from fedveil.core.errors import Diverged, FedveilError
from fedveil.data.dataset import Dataset
from fedveil.runs.files import RunFiles
from fedveil.studies.series import (
    Planned,
    check_size,
    count_seeds,
    differences,
    going_on,
    open_series,
    run_all,
    with_seeds,
)

WILD = {"local.steps": 1, "local.rate": 1e12, "aggregate.rate": 1e30}
"""Settings with which the model overflows in its first round."""


@pytest.fixture
def planned(tiny: dict[str, Any]) -> list[Planned]:
    return [run for name in ("fedavg", "fed-cdp") for run in with_seeds(name, resolve(name, tiny), (1, 2))]


def train(out: Path, planned: list[Planned], blobs: Dataset, follower: Follower | None = None) -> list[Any]:
    follower = follower or Follower()
    open_series(out, "comparison", planned)
    with going_on(out, follower):
        return run_all(out, planned, follower, records=lambda _: blobs, workers=1)


def models(out: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in sorted(out.glob("runs/*/model.safetensors"))}


def test_every_planned_run_is_trained_into_a_directory_of_its_name(
    tmp_path: Path, planned: list[Planned], blobs: Dataset
) -> None:
    done = train(tmp_path / "s", planned, blobs)
    assert [run.name for run in done] == ["fedavg-seed1", "fedavg-seed2", "fed-cdp-seed1", "fed-cdp-seed2"]
    assert all(run.result.rounds == len(run.rounds) == 4 for run in done)
    assert sorted(models(tmp_path / "s")) == sorted(run.name for run in planned)


def test_finished_runs_are_read_and_not_trained_again(tmp_path: Path, planned: list[Planned], blobs: Dataset) -> None:
    first = train(tmp_path / "s", planned, blobs)
    again = Follower()
    second = train(tmp_path / "s", planned, blobs, again)
    assert not again.trained
    assert again.finished_before == 4
    assert [run.result.accuracy for run in second] == [run.result.accuracy for run in first]


def test_an_interrupted_series_goes_on_and_ends_as_if_it_had_not_been(
    tmp_path: Path, planned: list[Planned], blobs: Dataset
) -> None:
    cut = interrupt_at("fed-cdp-seed1", 2)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cut", planned, blobs, cut)
    assert f"interrupted in {tmp_path / 'cut'}" in cut.words[-1]
    rest = Follower()
    train(tmp_path / "cut", planned, blobs, rest)
    assert rest.trained == ["fed-cdp-seed1", "fed-cdp-seed2"]
    train(tmp_path / "whole", planned, blobs)
    assert models(tmp_path / "cut") == models(tmp_path / "whole")


def test_a_run_killed_while_its_directory_was_made_is_begun_anew(
    tmp_path: Path, planned: list[Planned], blobs: Dataset
) -> None:
    open_series(tmp_path / "s", "comparison", planned)
    files = RunFiles(tmp_path / "s/runs/fedavg-seed1")
    files.create()
    files.spec.write_text("seed = 7\n")
    assert train(tmp_path / "s", planned, blobs)[0].result.rounds == 4


def test_a_run_killed_in_the_midst_of_making_its_directory_is_begun_anew(
    tmp_path: Path, planned: list[Planned], blobs: Dataset
) -> None:
    open_series(tmp_path / "s", "comparison", planned)
    (tmp_path / "s/runs/fedavg-seed1").mkdir()
    assert train(tmp_path / "s", planned[:1], blobs)[0].result.rounds == 4


def test_a_series_killed_at_its_beginning_is_begun_anew(tmp_path: Path, planned: list[Planned]) -> None:
    """Nothing but half of its first file is there, or not yet the directory of its runs."""
    half = tmp_path / "s/.series.json.123.part"
    half.parent.mkdir()
    half.write_text('{"for')
    open_series(tmp_path / "s", "comparison", planned)
    (tmp_path / "s/runs").rmdir()
    open_series(tmp_path / "s", "comparison", planned)
    assert (tmp_path / "s/runs").is_dir()


def test_half_written_tables_of_a_series_go_when_nobody_can_be_writing_them_any_more(
    tmp_path: Path, planned: list[Planned]
) -> None:
    open_series(tmp_path / "s", "comparison", planned)
    young, old, strange = (tmp_path / "s" / name for name in (".table.md.1.part", ".table.csv.2.part", "mine.part"))
    for path in (young, old, strange):
        path.write_text("half")
    for path in (old, strange):
        os.utime(path, (1, 1))
    open_series(tmp_path / "s", "comparison", planned)
    assert (young.exists(), old.exists(), strange.exists()) == (True, False, True)


def test_a_series_may_grow_but_not_lose_runs(tmp_path: Path, planned: list[Planned], blobs: Dataset) -> None:
    train(tmp_path / "s", planned[:1], blobs)
    more = Follower()
    train(tmp_path / "s", planned[:2], blobs, more)
    assert more.trained == ["fedavg-seed2"]
    with pytest.raises(FedveilError, match="fedavg-seed2 is a run that was not asked for"):
        open_series(tmp_path / "s", "comparison", planned[:1])


def test_a_changed_spec_is_refused_with_the_key_and_both_values(
    tmp_path: Path, planned: list[Planned], blobs: Dataset, tiny: dict[str, Any]
) -> None:
    train(tmp_path / "s", planned, blobs)
    spec = resolve("fedavg", tiny | {"local.steps": 3})
    changed = [Planned("fedavg-seed1", replace(spec, seed=1)), *planned[1:]]
    with pytest.raises(FedveilError, match=r"fedavg-seed1 was made with another local.steps \(6 there, 3 now\)"):
        open_series(tmp_path / "s", "comparison", changed)


def test_a_directory_that_holds_something_else_is_refused_and_left_alone(
    tmp_path: Path, planned: list[Planned]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FedveilError, match="holds something that is not a sweep"):
        open_series(tmp_path, "sweep", planned)
    with pytest.raises(FedveilError, match="holds something that is not a sweep"):
        open_series(tmp_path / "notes.txt", "sweep", planned)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    open_series(tmp_path / "s", "comparison", planned)
    with pytest.raises(FedveilError, match=r"holds a comparison \(format 1\), not a sweep"):
        open_series(tmp_path / "s", "sweep", planned)


def test_a_series_of_another_format_is_refused(tmp_path: Path, planned: list[Planned]) -> None:
    open_series(tmp_path / "s", "sweep", planned)
    (tmp_path / "s/series.json").write_text('{"format": 9, "kind": "sweep"}')
    with pytest.raises(FedveilError, match="format 9"):
        open_series(tmp_path / "s", "sweep", planned)
    (tmp_path / "s/series.json").write_text("{")
    with pytest.raises(FedveilError, match=r"series.json: can't be read"):
        open_series(tmp_path / "s", "sweep", planned)


def test_a_run_that_diverges_is_reported_and_the_others_are_finished(
    tmp_path: Path, planned: list[Planned], blobs: Dataset, tiny: dict[str, Any]
) -> None:
    wild = Planned("wild", resolve("fedavg", tiny | WILD))
    follower = Follower()
    done = train(tmp_path / "s", [wild, *planned[:1]], blobs, follower)
    assert done[0].result is None
    assert isinstance(done[0].failure, Diverged)
    assert follower.words[0].startswith("failed: ")
    assert done[1].result.rounds == 4


def test_a_series_without_a_single_finished_run_is_an_error(
    tmp_path: Path, blobs: Dataset, tiny: dict[str, Any]
) -> None:
    wild = Planned("wild", resolve("fedavg", tiny | WILD))
    with pytest.raises(FedveilError, match=r"no run was finished; wild: .*diverged"):
        train(tmp_path / "s", [wild], blobs)


def test_the_number_of_runs_and_of_seeds_is_bounded() -> None:
    check_size(1000, None)
    with pytest.raises(FedveilError, match="1,001 runs are more than the 1,000"):
        check_size(1001, None)
    with pytest.raises(FedveilError, match="workers: must be at least 1"):
        check_size(1, 0)
    assert count_seeds(3) == (1, 2, 3)
    with pytest.raises(FedveilError, match="seeds: must be at least 1, not 0"):
        count_seeds(0)


def test_without_seeds_a_run_stays_as_its_spec_says(tiny: dict[str, Any]) -> None:
    spec = resolve("fedavg", tiny | {"seed": "none"})
    assert with_seeds("a", spec, None) == [Planned("a", spec)]
    assert [run.spec.seed for run in with_seeds("a", spec, (4,))] == [4]


def test_differing_keys_are_named_by_their_dotted_path() -> None:
    assert [str(one) for one in differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}, "d": "x"})] == [
        "a.c (2 there, 3 now)",
        'd (nothing there, "x" now)',
    ]
