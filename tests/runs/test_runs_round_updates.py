"""What a caller learns after each round, and the logs."""

from __future__ import annotations

import csv
import math
import sys
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fedveil.core.errors import ArgumentError
from fedveil.data.dataset import Dataset
from fedveil.runs.account import account
from fedveil.runs.round_updates import RoundUpdate, round_log
from fedveil.runs.run import resume, run


class Enough(Exception):
    pass


def test_a_callback_gets_figures_and_what_was_spent_so_far(
    tmp_path: Path, tiny: dict[str, Any], blobs: Dataset
) -> None:
    seen: list[tuple[int, float, float]] = []

    def follow(update: RoundUpdate) -> None:
        seen.append((update.round, update.figures["accuracy"], update.guarantee("record", "server").epsilon))

    result = run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs, on_round=follow)
    assert [one[0] for one in seen] == list(range(1, result.rounds + 1))
    assert seen[-1][1:] == (result.accuracy, result.of("record", "server").epsilon)
    assert all(before[2] <= after[2] for before, after in pairwise(seen))


def test_what_a_callback_raises_ends_the_run_which_can_go_on(
    tmp_path: Path, tiny: dict[str, Any], blobs: Dataset
) -> None:
    def stop(update: RoundUpdate) -> None:
        raise Enough

    with pytest.raises(Enough):
        run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs, on_round=stop)
    later: list[int] = []
    resume(tmp_path / "run", workers=1, dataset=blobs, on_round=lambda update: later.append(update.round))
    assert later[0] == 2


def test_a_csv_log_has_a_line_for_each_round(tmp_path: Path, tiny: dict[str, Any], blobs: Dataset) -> None:
    with round_log("csv") as log:
        result = run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs, on_round=log)
    with (tmp_path / "run/rounds.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [int(row["round"]) for row in rows] == list(range(1, result.rounds + 1))
    assert float(rows[-1]["epsilon_record_server"]) == result.of("record", "server").epsilon
    assert float(rows[-1]["accuracy"]) == result.accuracy


def test_the_log_of_a_training_without_privacy_says_infinity(
    tmp_path: Path, tiny: dict[str, Any], blobs: Dataset
) -> None:
    with round_log("csv") as log:
        run("fedavg", tiny, out=tmp_path / "run", workers=1, dataset=blobs, on_round=log)
    with (tmp_path / "run/rounds.csv").open() as stream:
        assert {float(row["epsilon_record_server"]) for row in csv.DictReader(stream)} == {math.inf}


def test_tensorboard_gets_its_events(tmp_path: Path, tiny: dict[str, Any], blobs: Dataset) -> None:
    pytest.importorskip("tensorboard")
    with round_log("tensorboard") as log:
        run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs, on_round=log)
    (events,) = (tmp_path / "run/tensorboard").iterdir()
    assert b"epsilon_record_server" in events.read_bytes()


def test_mlflow_gets_its_metrics_in_a_folder(
    tmp_path: Path, tiny: dict[str, Any], blobs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mlflow's own
        with round_log("mlflow") as log:
            result = run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs, on_round=log)
    (metric,) = (tmp_path / "mlruns").glob("*/*/metrics/epsilon_record_server")
    assert len(metric.read_text().splitlines()) == result.rounds


def test_what_is_not_installed_is_said_before_anything_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ArgumentError, match=r"pip install 'fedveil\[mlflow\]'"), round_log("mlflow"):
        pass


def test_a_result_is_short_in_print_and_a_table_in_a_notebook(
    tmp_path: Path, tiny: dict[str, Any], blobs: Dataset
) -> None:
    result = run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    assert repr(result) == str(result)
    assert len(str(result).splitlines()) <= 8
    assert "against the server: ε = " in " ".join(str(result).split())
    html = result._repr_html_()
    assert "<table" in html
    assert "data:image/png;base64," in html
    assert repr(result.of("record", "server")).startswith("<record × server: ε = ")
    accounted = account(result.run)
    assert str(accounted).startswith("fed-cdp on blobs, 4 rounds: ")
    assert len(repr(accounted).splitlines()) <= 14
    assert "<table" in accounted._repr_html_()
