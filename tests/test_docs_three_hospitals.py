"""The tutorial "Three hospitals, an afternoon", block by block as it stands there: files saved, commands typed.

The fast test has the hospitals serve in this process. The slow one starts a process for each `site serve`, over TLS.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fedveil.cli import cli, transports
from fedveil.runtimes.child_processes import ChildProcesses, free_port
from fedveil.runtimes.in_process import InProcess
from fedveil.site.home import SiteHome
from fedveil.site.serving import SiteServer

PAGE = Path(__file__).parent.parent / "docs" / "tutorials" / "three-hospitals.md"
STEP = re.compile(
    r"Save this as `([^`]+)`(?: in `(\w+)`)?|^In (?:`(\w+)`|the empty directory):|^```(\w+)\n(.*?)^```", re.M | re.S
)
HOSPITALS = ("north", "south", "west")


@dataclass(frozen=True)
class Step:
    """A file to save, or commands to type, in a directory."""

    place: str
    file: str | None
    content: str

    @property
    def commands(self) -> list[list[str]]:
        return [shlex.split(line) for line in self.content.replace("\\\n", " ").splitlines()]


def steps() -> Iterator[Step]:
    place, file = ".", None
    for name, inside, terminal, language, content in STEP.findall(PAGE.read_text(encoding="utf-8")):
        if name:
            place, file = inside or ".", name
        elif not language:
            place, file = terminal or ".", None
        elif language != "text":
            assert file is not None or language == "sh", content
            yield Step(place, file, content)
            file = None


@dataclass
class Desk:
    """Does what the page says; how sites serve is for the tests to say."""

    root: Path
    serving: list[str]
    port: int | None = None  # another one than on the page, which may be in use

    def follow(self, monkeypatch: pytest.MonkeyPatch, serve: Any) -> None:
        for step in steps():
            monkeypatch.chdir(self.root / step.place)
            if step.file is not None:
                Path(step.file).write_text(step.content)
                continue
            for words in step.commands:
                self.type(step.place, words, serve)

    def type(self, place: str, words: list[str], serve: Any) -> None:
        if words[0] == "python":
            subprocess.run([sys.executable, *words[1:]], check=True, timeout=60)
        elif words[:3] == ["fedveil", "site", "serve"]:
            serve(place)
            self.serving.append(place)
        else:
            assert words[0] == "fedveil"
            if "--port" in words and self.port is not None:
                words = [*words[: words.index("--port")], "--port", str(self.port)]
            done = CliRunner().invoke(cli, words[1:], input="y\n")
            assert done.exit_code == 0, (words, done.output, done.exception)


def check_the_end(root: Path) -> None:
    pages = {"coordinator/federation.html": "The federation", "north/north.html": "20 answers sent"}
    for name, part in pages.items():
        assert part in (root / name).read_text(encoding="utf-8")
    assert len((root / "coordinator" / "predicted.csv").read_text().splitlines()) == 201


def test_a_stranger_can_follow_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened(kit: Path, sites: frozenset[str], seconds: float, say: Any) -> Iterator[InProcess]:
        with ExitStack() as stack:
            servers = {
                name: stack.enter_context(SiteServer(SiteHome(tmp_path / name / "fedveil-site"))) for name in sites
            }
            yield InProcess({name: server.answer for name, server in servers.items()})

    monkeypatch.setattr(transports, "opened_transport", opened)
    desk = Desk(tmp_path, [])
    desk.follow(monkeypatch, lambda place: None)
    assert tuple(desk.serving) == HOSPITALS
    check_the_end(tmp_path)


@pytest.mark.slow
def test_a_stranger_can_follow_the_page_with_real_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nvflare")
    with ChildProcesses(tmp_path) as processes:

        def serve(place: str) -> None:
            home = tmp_path / place / "fedveil-site"
            processes.start(place, ["fedveil.cli", "site", "serve", "--home", str(home)])

        Desk(tmp_path, [], free_port()).follow(monkeypatch, serve)
        check_the_end(tmp_path)


def test_the_page_says_what_the_mistakes_really_look_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path, [])
    for step in steps():
        if any("approve" in words for words in step.commands[:1]):
            break
        monkeypatch.chdir(tmp_path / step.place)
        if step.file is not None:
            Path(step.file).write_text(step.content)
        else:
            desk.type(step.place, step.commands[0], None)
    page = " ".join(PAGE.read_text(encoding="utf-8").split())

    def said(place: str, *words: str) -> str:
        monkeypatch.chdir(tmp_path / place)
        error = str(CliRunner().invoke(cli, words).exception).rsplit("sqlite: ")[-1]
        assert f"`{error}`" in page, error
        return error

    said("north", "site", "approve", "../coordinator/federation/invitations/south.json")
    monkeypatch.chdir(tmp_path / "coordinator")
    plan = Path("plan.toml")
    plan.write_text(plan.read_text().replace("epsilon = 0.8", "epsilon = 2"))
    assert CliRunner().invoke(cli, ["federation", "init", "plan.toml", "--home", "greedy"]).exit_code == 0
    said("north", "site", "approve", "../coordinator/greedy/invitations/north.json", "--yes")
    with (tmp_path / "north" / "patients.csv").open("a") as file:
        file.write("50,120,no,no\n")
    assert "records changed" in said("north", "status")
