"""What a front door chose is said, before a run and at its start."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedveil.config.spec import resolve
from fedveil.data.dataset import Dataset
from fedveil.report.terminal.run_progress import SilentReporter
from fedveil.runs.explain import explain
from fedveil.runs.files import RunFiles
from fedveil.runs.run import run


class Listening(SilentReporter):
    """Remembers what is said."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


FEW = {"data.clients": 5, "data.records": 20, "data.partition": "random", "stop.rounds": 3}


def test_it_is_said_what_is_chosen_and_why_and_what_the_noise_is_solved_for(blobs: Dataset) -> None:
    spec, lines = explain("private-records", FEW, dataset=blobs)
    text = "\n".join(lines)
    assert "chosen from public facts alone" in text
    for choice in spec.choices:
        assert f"  {choice}" in lines
    assert "The model that is handed out is the mean of those of the last 25% of the rounds." in text
    assert "An update counts as much as its client has records." in text
    assert "solved for ε = 1 of record × server" in lines[-1]
    assert "stop.rounds = " not in text  # that was stated


def test_a_paper_s_preset_is_explained_without_choices(blobs: Dataset) -> None:
    spec, lines = explain("fed-cdp", {**FEW, "cohort.size": 2, "model.name": "mlp"}, dataset=blobs)
    assert spec.choices == ()
    assert not any("chosen" in line for line in lines)
    assert any("clipped at L2 norm C = 4" in line for line in lines)


@pytest.mark.parametrize("door", ["private-records", "private-clients"])
def test_a_run_says_what_was_chosen_and_writes_it_down(door: str, blobs: Dataset, tmp_path: Path) -> None:
    noted = Listening()
    run(door, FEW, seed=1, out=tmp_path / "run", workers=1, dataset=blobs, reporter=noted)
    assert any("chosen from public facts alone" in note for note in noted.notes)
    stored = resolve(RunFiles(tmp_path / "run").spec)  # blobs is nobody's name, so nothing can be chosen again
    expected, _ = explain(door, FEW, dataset=blobs)
    assert stored.method == expected.method
    assert stored.model == expected.model
    assert not stored.privacy.calibrate
