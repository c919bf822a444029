"""Every example runs as a person would run it, with a 1 where it takes a number of rounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cores import use_all_cores, use_one_core
from missing_data import skip_without_data
from warm_scripts import run_script

EXAMPLES = {path.stem: path for path in sorted((Path(__file__).parent.parent / "examples").glob("*.py"))}


def run_example(name: str, cwd: Path) -> str:
    """What it prints. Only `own` gets workers, which import the file that they are started from."""
    before = use_all_cores if name == "own" else use_one_core
    done = run_script([str(EXAMPLES[name]), "1"], cwd=cwd, before=before)
    skip_without_data(done.stderr)
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    assert len(list((cwd / "runs").iterdir())) >= 1
    return done.stdout


SLOW = {"leakage"}
"""What it shows is shown by docs/leakage.md, too, whose commands are run."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW))
        for name in EXAMPLES
        if name not in ("hospitals", "schools")
    ],
)
def test_every_example_runs_and_says_how_it_went(name: str, tmp_path: Path) -> None:
    run_example(name, tmp_path)


def test_the_hospitals_run_and_keep_the_epsilon_they_sign(tmp_path: Path) -> None:
    printed = run_example("hospitals", tmp_path)
    epsilons = [float(line.split("ε = ")[1].split()[0]) for line in printed.splitlines() if "ε = " in line]
    assert len(epsilons) == 2
    assert all(0.9 < epsilon <= 1.0 for epsilon in epsilons)


def test_schools_keep_their_names_sizes_and_own_figures(tmp_path: Path) -> None:
    printed = run_example("schools", tmp_path)
    assert "160 schools: accuracy 0." in printed
    assert "would be chance alone" in printed
    (run,) = (tmp_path / "runs").iterdir()
    sites = json.loads((run / "result.json").read_text())["scores"]["sites"]
    assert len({one["site"] for one in sites}) == 160
    assert len({one["records"] for one in sites}) > 3


def test_bringing_ones_own_records_and_network_takes_under_forty_lines() -> None:
    assert len(EXAMPLES["own"].read_text().splitlines()) < 40
