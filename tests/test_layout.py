"""The house stays as it is: where files stand, what they are called, and what docs/architecture.md says of them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "fedveil"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix() for folder in ("", "methods") for path in (ROOT / "docs" / folder).glob("*.md")
)

MODULES = sorted(SOURCE.rglob("*.py"))
LIBRARY = [path for path in MODULES if "cli" not in path.relative_to(SOURCE).parts]
"""All but the command line, whose files and functions are called like what they call."""

SAY_NOTHING = {"terms", "described", "course", "layers", "several", "findings", "powers", "about", "bench", "settle"}
"""File names that do not tell a stranger what is in the file."""

NO_PACKAGE = {"equivalence", "faults", "mutants", "support"}
"""Folders of tests that belong to no single package: of several implementations of one thing, and what tests share."""

REPLACES_FILES = {
    "core/atomic.py": "the one place where files are written whole",
    "data/origins.py": "a download that was resumed over hours gets its name when its checksum is right",
    "data/sets/lfw.py": "the same, for each of thousands of pictures, which are checked together at the end",
}

WITHOUT_TORCH = ("fedveil.core.types", "fedveil.core.guarantee", "fedveil.data.known_sets")
"""What every command needs before it knows whether it will train."""

MOST_LINES_BEFORE_DECISIONS = 115


def place(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def public_names(path: Path) -> Iterator[str]:
    """Classes, functions, constants and aliases at the top of a module."""
    for node in tree_of(path).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        else:
            names = []
        yield from (name for name in names if not name.startswith("_"))


def repeated(pairs: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that stand in more than one place, with the places."""
    places = defaultdict(list)
    for name, where in pairs:
        places[name].append(where)
    return {name: found for name, found in places.items() if len(found) > 1}


# Names


def test_every_file_name_stands_once() -> None:
    files = [path for path in LIBRARY if path.stem not in ("__init__", "__main__")]
    assert repeated((path.name, place(path)) for path in files) == {}


def test_every_public_name_is_defined_once() -> None:
    modules = [path for path in LIBRARY if path.name != "__init__.py"]
    assert repeated((name, place(path)) for path in modules for name in public_names(path)) == {}


def test_every_file_name_says_something() -> None:
    assert [place(path) for path in MODULES if path.stem in SAY_NOTHING] == []
    assert not (SOURCE / "core" / "words.py").exists()


def test_tests_stand_where_their_package_stands() -> None:
    folders = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("*.py")}
    packages = {path.parent.relative_to(SOURCE) for path in MODULES}
    strangers = {folder for folder in folders - packages if folder.parts[0] not in NO_PACKAGE}
    assert strangers == set()


# What modules may do


def raised_texts(path: Path) -> list[str]:
    """The literal parts of messages that stand in a `raise`."""
    raised = [part for node in ast.walk(tree_of(path)) if isinstance(node, ast.Raise) for part in ast.walk(node)]
    return [part.value for part in raised if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def test_no_error_of_the_library_names_an_option_of_the_command_line() -> None:
    """Who calls from Python has no options. `ArgumentError` names the argument, and the command line its option."""
    texts = [(place(path), text) for path in LIBRARY for text in raised_texts(path)]
    assert len(texts) > 100
    assert [(where, text) for where, text in texts if re.search(r"(?<![\w-])--[a-z]", text)] == []


def test_declarations_are_read_without_pytorch() -> None:
    code = f"import sys, {', '.join(WITHOUT_TORCH)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60, check=False).returncode == 0


def looks_into_texts(node: ast.AST) -> bool:
    """`x.text == …`, `… in x.text`, `x.text.startswith(…)`: any comparison, and any test of what a text holds."""
    tests = {"startswith", "endswith", "find", "index", "count", "split", "partition", "removeprefix", "removesuffix"}
    if isinstance(node, ast.Compare):
        return any(isinstance(part, ast.Attribute) and part.attr == "text" for part in (node.left, *node.comparators))
    return (
        isinstance(node, ast.Attribute)
        and node.attr in tests
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "text"
    )


def test_a_caveat_is_known_by_its_kind_and_never_by_its_text() -> None:
    nodes = [(place(path), node) for path in MODULES for node in ast.walk(tree_of(path))]
    assert [(where, ast.unparse(node)) for where, node in nodes if looks_into_texts(node)] == []


@pytest.mark.parametrize(
    "code", ["c.text == 'a'", "'a' in c.text", "c.text.startswith('a')", "x if 'a' != c.text else y"]
)
def test_looking_into_a_text_is_recognised(code: str) -> None:
    assert any(map(looks_into_texts, ast.walk(ast.parse(code))))


def replaces_files(node: ast.AST) -> bool:
    """`os.replace`, `os.rename`, `shutil.move`, or `Path.replace` and `Path.rename`, which take one argument."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if isinstance(node.func.value, ast.Name) and node.func.value.id in ("os", "shutil"):
        return node.func.attr in ("replace", "rename", "renames", "move")
    return node.func.attr in ("replace", "rename") and len(node.args) == 1 and not node.keywords


def test_files_are_replaced_in_one_place() -> None:
    found = {place(path) for path in MODULES if any(map(replaces_files, ast.walk(tree_of(path))))}
    assert found == set(REPLACES_FILES)


# docs/architecture.md


def prose(text: str) -> list[str]:
    """The lines outside tables and blocks of code."""
    parts = re.split(r"^```.*$", text, flags=re.MULTILINE)[::2]
    return [line for part in parts for line in part.splitlines() if not line.startswith("|")]


def test_the_architecture_has_short_lines_and_two_screens_before_its_decisions() -> None:
    assert [line for line in prose(ARCHITECTURE) if len(line) > 120] == []
    assert len(ARCHITECTURE.partition("## Decisions")[0].splitlines()) <= MOST_LINES_BEFORE_DECISIONS


def test_the_architecture_lists_every_package_and_no_other() -> None:
    listed = set(re.findall(r"^\| `([a-z]+/|[a-z]+\.py)` \|", ARCHITECTURE, flags=re.MULTILINE))
    packages = {f"{path.parent.name}/" for path in SOURCE.glob("*/__init__.py")}
    modules = {path.name for path in SOURCE.glob("*.py") if path.name != "__init__.py"}
    assert listed == packages | modules


def test_the_architecture_states_the_import_rule_that_is_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rule = " → ".join(contracts[0]["layers"]).replace("fedveil.", "")
    assert f"`{rule}`" in " ".join(ARCHITECTURE.split())


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", *DOCUMENTS])
def test_every_module_and_function_that_a_document_names_exists(name: str) -> None:
    folders = ("src", "tests", "examples", "benchmarks")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    for module, function in re.findall(r"`([\w/]+\.py)(?::(\w+))?[`.:]", (ROOT / name).read_text(encoding="utf-8")):
        if "NAME" in module:
            continue
        meant = [path for path in paths if path.as_posix().endswith(f"/{module}")]
        assert meant, module
        if function:
            assert re.search(rf"\b(?:def|class) {function}\b", meant[0].read_text()), (module, function)
