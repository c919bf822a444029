"""Every example runs as a person would run it, with a 1 where it takes a number of rounds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_every_example_runs_and_says_how_it_went(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path), "1"], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    if "fedveil data fetch" in done.stderr:
        pytest.skip("needs a data set that is not here")
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    assert len(list((tmp_path / "runs").iterdir())) >= 1


def test_bringing_ones_own_records_and_network_takes_under_forty_lines() -> None:
    own = next(path for path in EXAMPLES if path.stem == "own")
    assert len(own.read_text().splitlines()) < 40


def test_the_hospitals_keep_the_epsilon_they_sign(tmp_path: Path) -> None:
    path = next(path for path in EXAMPLES if path.stem == "hospitals")
    done = subprocess.run(
        [sys.executable, str(path), "1"], cwd=tmp_path, capture_output=True, text=True, env=os.environ, check=True
    )
    epsilons = [float(line.split("ε = ")[1].split()[0]) for line in done.stdout.splitlines() if "ε = " in line]
    assert len(epsilons) == 2
    assert all(0.9 < epsilon <= 1.0 for epsilon in epsilons)
