"""The wheel holds the whole package, and what it installs works away from the sources.

The fast tests install it beside the dependencies of the running environment, without an index. The slow one does what
a newcomer does: an empty environment, and everything from the index.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterator
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from zipfile import ZipFile

import pytest

from fedveil.zoo import ZOO

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DIST_INFO = f"fedveil-{PROJECT['version']}.dist-info"

ORIGINS = """
import importlib.metadata, json, sys, fedveil, fedveil.cli
known = importlib.metadata.distribution("fedveil")
files = [module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "fedveil"]
print(json.dumps({"files": files, "metadata": str(known.locate_file("")), "path": sys.path}))
"""


def call(*command: str | Path, cwd: Path) -> str:
    """Runs a command that sees no sources and no data sets; returns what it prints."""
    hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    environment |= {"FEDVEIL_DATA": str(cwd / "no-data"), "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def build(python: Path, out: Path, *options: str) -> Path:
    """The wheel, built from a copy: setuptools would take modules long gone out of an old `build/` in the sources."""
    sources = out / "sources"
    sources.mkdir()
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, sources)
    shutil.copytree(ROOT / "src", sources / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    call(python, "-m", "pip", "wheel", sources, "--no-deps", "--quiet", "--wheel-dir", out, *options, cwd=out)
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(Path(sys.executable), tmp_path_factory.mktemp("wheel"), "--no-index", "--no-build-isolation")


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        return BytesParser().parsebytes(archive.read(f"{DIST_INFO}/METADATA"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel alone, and finds what it needs in the running one.

    A `.pth` file adds a directory to the path, but not what the `.pth` files in there add: an editable install of the
    sources stays out. It is written last, so that pip sees nothing of the running environment.
    """
    home = tmp_path_factory.mktemp("environment")
    python = home / "bin/python"
    call(sys.executable, "-m", "venv", "--without-pip", home, cwd=home)
    pip = (sys.executable, "-m", "pip", "--python", python)
    call(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=home)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(home)}))
    needed = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    (packages / "dependencies.pth").write_text("\n".join(needed) + "\n")
    return home


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory that is gone afterwards, whatever pytest keeps: an environment of its own takes over a gigabyte."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def check_origin(home: Path, cwd: Path) -> None:
    origins = json.loads(call(home / "bin/python", "-c", ORIGINS, cwd=cwd))
    assert len(origins["files"]) > 1
    for path in [*origins["files"], origins["metadata"]]:
        assert Path(path).resolve().is_relative_to(home.resolve()), f"{path} is not from the wheel"
    assert str(ROOT / "src") not in origins["path"]


def check_version(home: Path, cwd: Path) -> None:
    assert call(home / "bin/fedveil", "--version", cwd=cwd).split() == ["fedveil,", "version", PROJECT["version"]]


def check_methods(home: Path, cwd: Path) -> None:
    printed = call(home / "bin/fedveil", "methods", cwd=cwd).split()
    assert set(ZOO) <= set(printed)


def check_account(home: Path, cwd: Path) -> None:
    printed = call(home / "bin/fedveil", "account", "fed-cdp", "--set", "data.name=cancer", cwd=cwd)
    assert "record × server" in printed


def check_run(home: Path, cwd: Path) -> None:
    command = (home / "bin/fedveil", "run", "fed-cdp", "--set", "data.name=cancer")
    result = json.loads(call(*command, "--rounds", "3", "--workers", "1", "--json", "--out", "three", cwd=cwd))
    assert result["rounds"] == 3
    assert (cwd / "three/model.safetensors").is_file()


CHECKS = {
    "runs its own modules and not the sources": check_origin,
    "tells its version": check_version,
    "lists the methods": check_methods,
    "accounts for fed-cdp": check_account,
    "trains three rounds": check_run,
}


def test_the_wheel_holds_every_file_of_the_package_and_no_tests(wheel: Path) -> None:
    sources = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src/fedveil").glob("**/*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if not name.startswith(f"{DIST_INFO}/")}
    assert inside == sources
    data = {"fedveil/py.typed", "fedveil/papers/papers.toml", "fedveil/models/strokes.safetensors"}
    data |= {"fedveil/models/scenes.safetensors"}
    assert data <= inside
    assert not [name for name in inside if {"tests", "conftest.py"} & set(name.split("/")) or "/test_" in name]


def test_the_licence_is_in_the_wheel(wheel: Path, metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    with ZipFile(wheel) as archive:
        assert archive.read(f"{DIST_INFO}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_the_metadata_of_the_wheel_is_complete(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("fedveil", PROJECT["version"])
    assert metadata["Summary"] == PROJECT["description"]
    assert metadata["Author"] == "fedveil developers"
    assert metadata["Keywords"] == ",".join(PROJECT["keywords"])
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_all("Classifier") == PROJECT["classifiers"]
    assert "Typing :: Typed" in PROJECT["classifiers"]
    needed = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]
    assert len(needed) == len(PROJECT["dependencies"])
    assert not [value for _, value in metadata.items() if "UNKNOWN" in value]


def test_what_an_index_shows_of_the_readme_needs_no_other_file(metadata: Message) -> None:
    shown = metadata.get_payload()
    assert "fedveil demo" in shown
    assert "private-records" in shown
    assert not re.findall(r"!?\[[^\]]*\]\((?!https?:|#)[^)]*\)", shown)
    assert "architecture, contributing" in shown  # the words of a link stay


# An account is part of what a training prints, so the account by itself is slow.
@pytest.mark.parametrize(
    "does", [pytest.param(does, marks=[pytest.mark.slow] * ("account" in does)) for does in CHECKS]
)
def test_the_installed_wheel(does: str, installed: Path, tmp_path: Path) -> None:
    CHECKS[does](installed, tmp_path)


@pytest.mark.slow
def test_the_wheel_and_all_that_it_needs_work_in_an_empty_environment(scratch: Path) -> None:
    home = scratch / "environment"
    python = home / "bin/python"
    call(sys.executable, "-m", "venv", home, cwd=scratch)
    wheel = build(python, scratch)
    pip = (python, "-m", "pip")
    call(*pip, "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel, cwd=scratch)
    call(*pip, "check", cwd=scratch)
    for check in CHECKS.values():
        check(home, scratch)
