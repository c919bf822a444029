"""What the documents show can be run as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fedveil.experiment.spec import resolve

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for path in DOCUMENTS:
        for number, code in enumerate(re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL)):
            found.append((f"{path.name}-{number}", code))
    return found


@pytest.mark.parametrize(("name", "code"), blocks("python"), ids=[name for name, _ in blocks("python")])
def test_every_python_block_runs_as_a_script(name: str, code: str, tmp_path: Path) -> None:
    script = tmp_path / "block.py"
    script.write_text(code)
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    if "fedveil data fetch" in done.stderr:
        pytest.skip("needs a data set that is not here")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("name", "code"), blocks("toml"), ids=[name for name, _ in blocks("toml")])
def test_every_toml_block_is_a_spec(name: str, code: str) -> None:
    resolve(tomllib.loads(code))


def test_every_spec_file_of_the_repository_resolves() -> None:
    specs = sorted((ROOT / "specs").glob("**/*.toml"))
    assert specs
    for path in specs:
        resolve(path)


def test_ci_calls_the_test_command_of_the_readme() -> None:
    assert "make test" in (ROOT / "README.md").read_text().split("```")[1]
    commands = [line for line in (ROOT / ".ci/run").read_text().splitlines() if line.startswith("make")]
    assert commands == ["make test"]
