"""What attacks and audits left in a run, and what of it counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedveil.core.types import View
from fedveil.data.dataset import Dataset
from fedveil.runs.evidence import read_attacks, read_audits
from fedveil.runs.files import RunFiles
from fedveil.runs.run import run
from fedveil.studies.attack import attack
from fedveil.studies.audit import audit


@pytest.fixture(params=[False, True], ids=["noise on the sum", "noise on each row"])
def examined(request: pytest.FixtureRequest, tmp_path: Path, tiny: dict[str, Any], blobs: Dataset) -> RunFiles:
    """A run that was attacked and audited on the device; its spec says whether rows are noised."""
    settings = {**tiny, "example.each_row": request.param, "stop.rounds": 1, "local.steps": 1}
    run("fed-cdp", settings, out=tmp_path / "run", workers=1, dataset=blobs)
    attack(tmp_path / "run", victims=1, iterations=1, workers=1, dataset=blobs)
    audit(tmp_path / "run", view="on_device", canaries=5, workers=1, dataset=blobs)
    return RunFiles(tmp_path / "run")


def test_what_was_seen_of_the_runs_own_rows_counts(examined: RunFiles) -> None:
    for found, problems in (read_attacks(examined), read_audits(examined)):
        assert [(one.view, problems) for one in found] == [(View.ON_DEVICE, [])]


def test_evidence_of_noise_on_rows_counts_only_for_runs_whose_rows_carry_it(examined: RunFiles) -> None:
    """In runs of formats 1 and 2 rows had noise whenever somebody looked at them, and only then."""
    attacked, audited = next(examined.attacks.glob("*/result.json")), next(examined.audits.glob("*.json"))
    kept = json.loads(attacked.read_text())
    attacked.write_text(json.dumps(kept | {"facts": kept["facts"] | {"noise_std": 24.0}}))
    kept = json.loads(audited.read_text())
    audited.write_text(json.dumps(kept | {"promised": True, "epsilon_verified": 9.0, "holds": True, "refuted": None}))
    noised = "each_row = true" in examined.read_spec()
    for found, problems in (read_attacks(examined), read_audits(examined)):
        assert len(found) == noised
        assert len(problems) == (not noised)
        assert all("speaks of rows with noise, and this run's rows are clean" in problem for problem in problems)
