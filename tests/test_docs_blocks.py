"""What the documents show is run, block by block: as it stands there, or with fewer rounds and victims.

Blocks are `python` (scripts), `toml` (specs), `sh` (commands), `console` (commands after `$ ` and what they print),
`text` (not code). The commands of one document follow one another in one directory; `runs/RUN` is its newest run.
Commands that train are shortened, and what they print is compared only in the slow test, which runs them in full.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from glob import glob
from itertools import chain
from pathlib import Path

import pytest
from cores import use_all_cores, use_one_core
from missing_data import skip_without_data
from warm_scripts import run_script

from fedveil.cli import main
from fedveil.config.spec import resolve
from fedveil.data.picture_form import read_picture_form
from fedveil.data.schema_file import parse_schema

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")), *sorted((ROOT / "examples").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

SHORTER = {
    "run": ["--rounds", "1", "--set", "local.steps=2", "--workers", "1"],
    "compare": ["--rounds", "1", "--set", "local.steps=2", "--workers", "1"],
    "sweep": ["--rounds", "1", "--seeds", "1", "--workers", "1"],
    "attack": ["--victims", "1", "--iterations", "2", "--workers", "1"],
    "reproduce": ["--no-training"],
    "demo": ["--rounds", "1", "--data", "cancer"],
    "audit": [
        *("--canaries", "20", "--set", "data.clients=20", "--set", "cohort.size=20", "--set", "local.steps=2"),
        *("--workers", "1"),
        *("--confidence", "0.999999"),  # at the usual 0.95 chance alone calls a sound method broken now and then
    ],
}
"""What is appended to a command to make it short; a later option wins over an earlier one."""

OF_A_RUN = ["--canaries", "20", "--workers", "1", "--confidence", "0.999999"]
"""The same for an audit of a run, whose settings are what they are."""

INCONCLUSIVE = 3
"""How an audit ends that is too short to say anything."""

ELSEWHERE = {"make", "python"}
"""`make test` runs this test, the rules behind `make demo` are run below, and examples by a test of their own."""


@dataclass(frozen=True)
class Command:
    """A line of a document, and what the document says that it prints."""

    line: str
    printed: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line, comments=True)


def blocks(path: Path, language: str) -> list[str]:
    return [code for found, code in FENCE.findall(path.read_text()) if found == language]


def named_blocks(language: str) -> list[tuple[str, str]]:
    return [
        (f"{path.relative_to(ROOT)}-{number}", code)
        for path in DOCUMENTS
        for number, code in enumerate(blocks(path, language))
    ]


def commands(path: Path) -> Iterator[Command]:
    for language, code in FENCE.findall(path.read_text()):
        joined = code.replace("\\\n", " ")
        if language == "sh":
            yield from (Command(line) for line in joined.splitlines() if line.strip())
        elif language == "console":
            for part in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
                line, *printed = part.splitlines()
                yield Command(line, tuple(text.strip() for text in printed if text.strip(" …")))


OWN_TEST = {"three-hospitals.md"}
"""Its commands belong to four terminals: test_docs_three_hospitals.py types them."""

WITH_COMMANDS = [path for path in DOCUMENTS if path.name not in OWN_TEST and any(True for _ in commands(path))]


def expanded(word: str) -> list[str]:
    """`runs/RUN` is the newest run; files that match a pattern, as a shell gives them."""
    if "runs/RUN" in word:
        runs = sorted(Path("runs").glob("*/spec.toml"), key=lambda path: path.stat().st_mtime)
        word = word.replace("runs/RUN", str(runs[-1].parent))
    return [word] if word.startswith("[") else sorted(glob(word)) or [word]  # a document quotes such a pattern


Call = Callable[[list[str]], str]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """Runs a command in a directory that looks to it like the project's own; returns all that it prints."""
    for name in ("specs", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)

    def run(words: list[str]) -> str:
        if words[0] == "python":
            return script(words[1:])
        assert Path(words[0]).name == "fedveil", f"a document shows a command that no test knows: {words[0]}"
        monkeypatch.setattr(sys, "argv", ["fedveil", *chain.from_iterable(map(expanded, words[1:]))])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        code = int(stop.value.code or 0)
        check(shlex.join(words), 0 if words[1] == "audit" and code == INCONCLUSIVE else code, printed.err)
        return printed.out + printed.err

    return run


def script(words: list[str], before: Callable[[], None] = use_one_core) -> str:
    done = run_script(words, cwd=Path.cwd(), before=before)
    check(shlex.join(words), done.returncode, done.stderr)
    return done.stdout + done.stderr


def check(line: str, code: int, errors: str) -> None:
    if code:
        skip_without_data(errors)
    assert code == 0, f"{line}: {errors}"


def shorter(words: list[str]) -> list[str]:
    some = chain.from_iterable(expanded(word)[:2] for word in words)
    more = OF_A_RUN if words[1] == "audit" and words[2].startswith("runs/") else SHORTER.get(words[1])
    return words if more is None else [*some, *more]


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_every_block_says_what_it_is() -> None:
    for path in DOCUMENTS:
        for language, code in FENCE.findall(path.read_text()):
            assert language in {"python", "toml", "sh", "console", "text"}, f"{path.name}: {code[:60]!r}"


@pytest.mark.parametrize(("name", "code"), named_blocks("python"), ids=[name for name, _ in named_blocks("python")])
def test_every_python_block_runs_as_a_script(name: str, code: str, call: Call) -> None:
    Path("block.py").write_text(code)
    script(["block.py"], use_all_cores if name.startswith("README.md") else use_one_core)


@pytest.mark.parametrize(("name", "code"), named_blocks("toml"), ids=[name for name, _ in named_blocks("toml")])
def test_every_toml_block_is_a_spec_or_a_schema(name: str, code: str) -> None:
    table = tomllib.loads(code)
    table.pop("federation", None)  # of a plan, which is a spec besides
    if "pictures" in table:
        read_picture_form(table["pictures"])
    elif "columns" in table:
        parse_schema(code, name)
    else:
        resolve(table)


def alike(path: Path) -> bool:
    """Whether it is one of the many pages that `reproduce` makes, whose commands differ by a table's name only."""
    return path.parent.name in {"paper", "small"} and path.name != "fed-cdp-table-6.md"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=str(path.relative_to(ROOT)), marks=[pytest.mark.slow] * alike(path))
        for path in WITH_COMMANDS
    ],
)
def test_every_command_of_a_document_works_and_prints_what_it_says(path: Path, call: Call) -> None:
    for command in commands(path):
        words = command.words
        if words[0] in ELSEWHERE:
            continue
        short = shorter(words)
        printed = squeezed(call(short))
        if short == words:
            for line in command.printed:
                assert squeezed(line.rstrip("… ;")) in printed, f"{path.name}: {command.line}"


@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_COMMANDS, ids=[str(path.relative_to(ROOT)) for path in WITH_COMMANDS])
def test_every_command_in_full_prints_what_its_document_says(path: Path, call: Call) -> None:
    told = list(commands(path))
    if not any(command.printed for command in told):
        pytest.skip("the document says nothing about what its commands print")
    for command in told:
        printed = squeezed(call(command.words))
        for line in command.printed:
            assert squeezed(line.rstrip("… ;")) in printed, f"{path.name}: {command.line}"


def test_the_commands_behind_make_demo_work(call: Call) -> None:
    rules = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = [line for line in rules.splitlines() if "/fedveil " in line]
    assert [line.split()[1] for line in lines] == ["data", "demo"]
    if "FEDVEIL_DATA" not in os.environ:
        pytest.skip("would fetch a data set")
    for line in lines:
        call(shorter(shlex.split(line)))


def test_every_spec_file_of_the_repository_resolves() -> None:
    specs = sorted((ROOT / "specs").glob("**/*.toml"))
    assert specs
    for path in specs:
        resolve(path)


def test_ci_calls_the_test_command_of_the_readme() -> None:
    assert "make test" in (ROOT / "README.md").read_text()
    lines = [line for line in (ROOT / ".ci/run").read_text().splitlines() if line.startswith("make")]
    assert lines == ["make test"]
