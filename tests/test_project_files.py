"""What a newcomer finds beside the code stays true: licence, contributing, security, citation, changelog, hooks."""

from __future__ import annotations

import ast
import hashlib
import importlib
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from fedveil.cli import cli
from fedveil.zoo import ZOO

ROOT = Path(__file__).parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
PROSE = ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
KINDS_OF_CHANGE = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
APACHE_2_0 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""SHA-256 of the licence as the Apache Software Foundation publishes it."""


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def make(target: str) -> list[str]:
    """The commands of a make target, not executed; an error if there is no such target."""
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def citation() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(text_of("CITATION.cff"))
    return loaded


@pytest.fixture(scope="module")
def hooks() -> list[dict[str, Any]]:
    repositories = yaml.safe_load(text_of(".pre-commit-config.yaml"))["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"], "a hook would be fetched"
    return list(repositories[0]["hooks"])


def test_the_licence_is_the_official_text() -> None:
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2_0


def test_the_readme_leads_to_the_project_files() -> None:
    for name in ["LICENSE", "CITATION.cff", *PROSE]:
        assert f"]({name})" in text_of("README.md")


@pytest.mark.parametrize("name", PROSE)
def test_every_link_leads_to_a_file(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)", text_of(name)):
        assert target.startswith("https://") or (ROOT / target).exists(), target


@pytest.mark.parametrize("name", PROSE)
def test_no_line_of_prose_is_longer_than_120_characters(name: str) -> None:
    assert not [line for line in text_of(name).splitlines() if len(line) > 120]


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md"])
def test_what_a_newcomer_reads_fits_on_one_screen(name: str) -> None:
    assert len(text_of(name).splitlines()) <= 45


def test_the_readme_fits_on_one_screen_and_has_the_figures_that_were_measured() -> None:
    text = text_of("README.md")
    assert len(text.splitlines()) <= 70
    rows = re.findall(r"\| `fedveil run [a-z-]+` \| (0\.\d{3}) at ε = ([\d.]+) .*\| (0\.\d{3}) \|$", text, re.MULTILINE)
    assert len(rows) == 3
    measured = text_of("docs/results/front-doors.md")
    for private, epsilon, bare in rows:
        line = rf"\| {re.escape(epsilon)}, \S+ \| ([\d.]+)[^|]*\| ([\d.]+)"
        found = [(f"{float(one):.3f}", f"{float(two):.3f}") for one, two in re.findall(line, measured)]
        assert (private, bare) in found, (private, bare)


def test_every_make_target_that_contributing_names_exists() -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", text_of("CONTRIBUTING.md"), flags=re.MULTILINE))
    assert {"install", "lint", "test", "test-all", "docs"} <= named
    for target in named:
        make(target)


def test_every_path_that_contributing_names_exists() -> None:
    for name in re.findall(
        r"`((?:src|docs|tests|specs|examples|benchmarks|\.pre)[\w./-]*)`", text_of("CONTRIBUTING.md")
    ):
        assert (ROOT / name).exists(), name


def test_the_methods_of_which_security_says_that_they_promise_nothing_are_those_without_noise() -> None:
    (listed,) = re.findall(r"promises nothing \(([^)]*)\)", text_of("SECURITY.md"))
    bare = {name for name, entry in ZOO.items() if entry.summary.startswith("no privacy")}
    assert set(re.findall(r"`([^`]+)`", listed)) == bare


def test_the_citation_has_the_version_and_licence_of_the_package(citation: dict[str, Any]) -> None:
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]
    assert citation["message"]
    assert citation["title"].startswith(PROJECT["name"])


def test_the_citation_names_the_papers_of_the_methods(citation: dict[str, Any]) -> None:
    references = citation["references"]
    assert all(reference["type"] and reference["title"] and reference["authors"] for reference in references)
    dated = {f"{paper['authors'][0]['family-names']} et al. {paper['year']}" for paper in references if "year" in paper}
    assert dated == {"Wei et al. 2021", "Geyer et al. 2017", "Zheng et al. 2021"}
    assert dated <= {entry.paper for entry in ZOO.values()}
    (undated,) = [paper["title"] for paper in references if "year" not in paper]
    assert ZOO["ldp-sgd"].paper in undated


def test_the_hooks_run_what_make_lint_runs(hooks: list[dict[str, Any]]) -> None:
    commands = [line.removeprefix(".venv/bin/") for line in make("lint") if line.startswith(".venv/bin/")]
    linters = [command.removesuffix(" .") for command in commands if not command.startswith("python ")]
    assert [hook["entry"] for hook in hooks] == linters


def test_the_hooks_use_tools_that_are_installed_and_fetch_nothing(hooks: list[dict[str, Any]]) -> None:
    for hook in hooks:
        assert hook["language"] == "system"
        assert shutil.which(hook["entry"].split()[0], path=str(Path(sys.executable).parent)), hook["entry"]


def test_editors_and_linters_agree_on_the_length_of_a_line() -> None:
    parser = ConfigParser()
    parser.read_string("[top]\n" + text_of(".editorconfig"))
    assert parser["top"]["root"] == "true"
    assert parser["*.{py,toml}"].getint("max_line_length") == SETTINGS["tool"]["ruff"]["line-length"]
    assert parser["Makefile"]["indent_style"] == "tab"


def test_the_supported_python_versions_begin_where_the_package_does() -> None:
    stated = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == f">={stated[0]}"


def test_the_changelog_begins_with_what_is_unreleased_and_keeps_the_kinds_of_change_in_order() -> None:
    versions = re.split(r"^## ", text_of("CHANGELOG.md"), flags=re.MULTILINE)[1:]
    assert versions[0].startswith("[Unreleased]")
    for version in versions:
        kinds = re.findall(r"^### (.*)$", version, flags=re.MULTILINE)
        assert kinds == [kind for kind in KINDS_OF_CHANGE if kind in kinds], version.splitlines()[0]


def test_the_page_of_speeds_is_made_from_the_results() -> None:
    """`python benchmarks/page.py` wrote it: no number on it is typed in."""
    made = runpy.run_path(str(ROOT / "benchmarks" / "page.py"))["page"]()
    assert (ROOT / "docs" / "results" / "speed.md").read_text(encoding="utf-8") == made


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_what_a_benchmark_takes_from_the_package_is_there(path: Path) -> None:
    """Nobody runs them all after every change, and the type checker does not see them."""
    for line in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(line, ast.ImportFrom) and (line.module or "").startswith("fedveil"):
            module = importlib.import_module(str(line.module))
            folder = ROOT / "src" / str(line.module).replace(".", "/")
            for name in line.names:
                files = [folder / f"{name.name}{end}" for end in (".py", ".pyi")]  # compiled modules may be missing
                there = hasattr(module, name.name) or any(file.exists() for file in files)
                assert there, f"{line.module} has no {name.name}"


def commands(group: click.Group) -> Iterator[click.Command]:
    for command in group.commands.values():
        yield from commands(command) if isinstance(command, click.Group) else [command]


def test_what_commands_leave_in_the_checkout_is_none_of_the_project() -> None:
    """Linters go over all that is not ignored: after the README's first command its second one must not fail."""
    left = {
        Path(option.default).parts[0]
        for command in commands(cli)
        for option in command.params
        if isinstance(option.type, click.Path) and isinstance(option.default, str | Path)
        if not Path(option.default).suffix  # a folder
    }
    assert {"fedveil-demo", "federation-demo", "federation", "fedveil-site"} <= left
    ignored = text_of(".gitignore").splitlines()
    assert [name for name in sorted(left) if f"/{name}/" not in ignored] == []
    assert "/fedveil-signing.key" in ignored
