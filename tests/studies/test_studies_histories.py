"""The history of runs, read from what they leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from series_follower import Follower

from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset
from fedveil.runs.files import RunFiles
from fedveil.runs.run import run
from fedveil.studies.compare import compare
from fedveil.studies.histories import read_histories, show


@pytest.fixture
def finished(tmp_path: Path, tiny: dict[str, Any], blobs: Dataset) -> Path:
    return run("fed-cdp", tiny, out=tmp_path / "finished", workers=1, dataset=blobs).run


def cut_short(path: Path, rounds: int) -> None:
    """Make a run look as if it had been stopped."""
    files = RunFiles(path)
    files.result.unlink()
    files.trim_events(rounds)


def test_a_finished_run_is_told_with_its_rounds_and_accuracy(finished: Path) -> None:
    (history,) = read_histories([finished])
    assert history.finished
    assert len(history.rounds) == history.planned == 4
    assert history.line.startswith("finished: fed-cdp on blobs, 4 rounds, accuracy 0.")
    assert history.line.endswith("not private: seeded")
    assert "unfinished" not in history.line


def test_an_unfinished_run_is_drawn_and_says_so(finished: Path, tmp_path: Path) -> None:
    cut_short(finished, 2)
    (history,), picture = show([finished], tmp_path / "picture.png")
    assert "unfinished: 2 of 4 rounds" in history.line
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_several_runs_share_a_picture_and_keep_apart_by_name(
    finished: Path, tmp_path: Path, tiny: dict[str, Any], blobs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = run("fedavg", tiny, out=tmp_path / "other/finished", workers=1, dataset=blobs).run
    monkeypatch.chdir(tmp_path)
    courses, picture = show([finished, other])
    assert {history.name for history in courses} == {str(finished), str(other)}
    assert picture == Path("course.png")
    assert picture.exists()
    assert show([other])[1] == Path("finished-course.png")


def test_a_comparison_stands_for_its_runs(tmp_path: Path, tiny: dict[str, Any], blobs: Dataset) -> None:
    compare(["fedavg", "fed-cdp"], tiny, follower=Follower(), out=tmp_path / "c", workers=1, dataset=blobs)
    assert [history.name for history in read_histories([tmp_path / "c"])] == ["fed-cdp", "fedavg"]


def test_events_of_later_versions_are_drawn_and_odd_ones_left_out(finished: Path, tmp_path: Path) -> None:
    events = [json.loads(line) for line in RunFiles(finished).events.read_text().splitlines()]
    for event in events:
        if event["event"] == "round":
            event |= {
                "bound": None,
                "between_client_variance": 1e-3,
                "update_scale": "?",
                "something": [1],
                "accuracy": "?",
            }
    RunFiles(finished).events.write_text("".join(json.dumps(event) + "\n" for event in events) + '{"event": "rou')
    (history,), picture = show([finished], tmp_path / "picture.png")
    assert picture.exists()
    assert "accuracy" not in history.line


def test_what_can_not_be_shown_is_refused(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(FedveilError, match="not a run directory"):
        show([tmp_path])
    with pytest.raises(FedveilError, match="29 runs are too many"):
        show([finished] * 29)
    with pytest.raises(FedveilError, match="No such file or directory"):
        show([finished], tmp_path / "nowhere/picture.png")
    cut_short(finished, 0)
    with pytest.raises(FedveilError, match="no round of it is finished yet"):
        show([finished])
