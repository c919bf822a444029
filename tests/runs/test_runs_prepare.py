"""What runs is what is said to run: every change to the spec that was given is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset
from fedveil.report.terminal.run_progress import SilentReporter
from fedveil.runs.prepare import prepare
from fedveil.runs.run import run

CALIBRATED = {"privacy.epsilon": 2.0, "privacy.calibrate": True}


class Noting(SilentReporter):
    """Remembers what it is told beside the rounds."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_spec_that_asks_for_nothing_runs_as_it_is(tiny: dict[str, Any], blobs: Dataset) -> None:
    spec = resolve("fed-cdp", tiny)
    prepared = prepare(spec, blobs)
    assert prepared.spec == spec
    assert prepared.job.method is prepared.spec.method
    assert prepared.changes == ()


def test_noise_that_was_solved_for_is_told_with_its_key_and_reason(tiny: dict[str, Any], blobs: Dataset) -> None:
    prepared = prepare(resolve("fed-cdp", tiny | CALIBRATED), blobs)
    (change,) = prepared.changes
    assert prepared.spec.method.example is not None
    assert (change.key, change.before, change.after) == ("example.sigma", 6.0, prepared.spec.method.example.sigma)
    assert change.reason == "solved for ε = 2 of record × server at δ = 1e-05"
    assert not prepared.spec.privacy.calibrate
    assert prepared.job.method is prepared.spec.method


def test_a_run_says_what_it_changed_before_its_first_round(
    tiny: dict[str, Any], blobs: Dataset, tmp_path: Path
) -> None:
    reporter = Noting()
    run("fed-cdp", tiny | CALIBRATED, out=tmp_path / "run", workers=1, dataset=blobs, reporter=reporter)
    spec = resolve(tmp_path / "run" / "spec.toml")
    assert spec.method.example is not None
    assert reporter.notes[0].startswith(f"example.sigma = {spec.method.example.sigma:.6g} (it was 6.0): solved for")


@pytest.mark.parametrize("seed", [1, "none"])
def test_the_context_knows_whether_the_noise_can_be_repeated(
    tiny: dict[str, Any], blobs: Dataset, seed: object
) -> None:
    assert prepare(resolve("fed-cdp", tiny | {"seed": seed}), blobs).context.seeded is (seed == 1)


def test_noise_that_rounding_would_drown_is_refused_before_anything_is_promised_or_written(
    tiny: dict[str, Any], blobs: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(FedveilError, match="rounding would take more than half of the clip"):
        run("fed-cdp", tiny | {"example.sigma": 9e5, "model.options.hidden": [64]}, out=tmp_path / "run", dataset=blobs)
    assert not (tmp_path / "run").exists()
