"""The journey from files to a model on the command line, with sites in this process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from federation_scene import SCHEMA, write_table
from page_facts import Page

from fedveil.cli import cli, transports
from fedveil.core.errors import FedveilError
from fedveil.runtimes.in_process import InProcess
from fedveil.site.home import SiteHome
from fedveil.site.serving import SiteServer

PLAN = """
method = "fed-cdp-batch"
stop = { rounds = 3 }
batch = { kind = "poisson", size = 10 }
local = { steps = 2, rate = 0.5 }
cohort = { kind = "everyone", quorum = 2 }
example = { sigma = 4.0, clip = { bound = 1.0, by = "flat" } }
privacy = { delta = 1e-3 }

[federation]
name = "sickness"
sites = ["north/registration.json", "south/registration.json"]
schema = "schema.toml"
validation = "public.csv"
deadline = 5
"""


def call(*words: str, answer: str = "") -> Result:
    return CliRunner().invoke(cli, words, input=answer)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA)
    Path("plan.toml").write_text(PLAN)
    write_table(Path("public.csv"), 50, seed=99)
    for number, name in enumerate(("north", "south")):
        write_table(Path(f"{name}.csv"), 60, seed=number)
        made = call(
            "site", "init", "--home", name, "--name", name, "--data", f"{name}.csv", "--schema", "schema.toml",
            "--epsilon", "1", "--delta", "1e-3",
        )  # fmt: skip
        assert made.exit_code == 0, made.output
        assert "give this to the coordinator" in made.output
    made = call("federation", "init", "plan.toml")
    assert made.exit_code == 0, made.output
    return tmp_path


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened(kit: Path, sites: frozenset[str], seconds: float, say: Any) -> Iterator[InProcess]:
        with ExitStack() as stack:
            servers = {name: stack.enter_context(SiteServer(SiteHome(Path(name)))) for name in sites}
            yield InProcess({name: server.answer for name, server in servers.items()})

    monkeypatch.setattr(transports, "opened_transport", opened)


def test_the_journey_from_tables_to_a_model(folder: Path, in_process: None) -> None:
    shown = call("site", "approve", "federation/invitations/north.json", "--home", "north", answer="y\n")
    assert shown.exit_code == 0, shown.output
    for part in (
        "sites: north (60 records), south (60 records)",
        "what it costs this site, counting on nobody else: costs at δ = 0.001",
        "record × server",
        "The server and its operator see each client's update as it arrives",
        "of at most 1 (δ = 0.001)",
        "for ever: ε = 0 reserved,",
        "once this one is begun, of at most 8 (δ = 0.001)",
        "agree to this plan?",
    ):
        assert part in " ".join(shown.output.split()), (part, shown.output)
    assert call("site", "approve", "federation/invitations/south.json", "--home", "south", "--yes").exit_code == 0
    ended = call("federation", "run", "--json")
    assert ended.exit_code == 0, ended.output
    result: dict[str, Any] = json.loads(ended.stdout)
    assert result["rounds"] == 3
    status = json.loads(call("federation", "status", "--json").stdout)
    assert status["finished"] is True
    assert [(site["answers"], site["missed"]) for site in status["sites"]] == [(3, 0), (3, 0)]
    mine = json.loads(call("site", "status", "--home", "north", "--json").stdout)
    assert (mine["plans"][0]["answered"], mine["plans"][0]["charged"]) == (3, 3)
    assert mine["plans"][0]["spent"] == pytest.approx(status["sites"][0]["spent"], rel=1e-6)
    both = call("federation", "status").output, call("site", "status", "--home", "north").output
    assert "Rounds published                     3 of 3" in both[0]
    assert "Answers paid for, sent" in both[1]
    assert max(len(line) for text in both for line in text.splitlines()) <= 80
    assert call("status").output.splitlines()[:5] == both[0].splitlines()[:5]
    assert call("status", "north").output == both[1]
    page = call("report", "federation", "--out", "federation.html")
    assert page.exit_code == 0, page.output
    text = Page(Path("federation.html").read_text(encoding="utf-8")).text
    assert "The federation" in text
    assert mine["plans"][0]["hash"] in text
    released = call("report", "federation", "--for-release", "--out", "released.html")
    assert released.exit_code == 0, released.output
    assert "Who answered" not in Path("released.html").read_text(encoding="utf-8")
    own = call("report", "north", "--out", "north.html")
    assert "north: 3 answers sent, plans agreed to: 1" in own.output
    key = json.loads(Path("north/registration.json").read_text())["key"]
    checked = call("site", "check", "north.receipts.json", "--key", key)
    assert "signed with the key that you gave" in checked.output
    assert "3 answers sent, 3 paid for" in checked.output


def test_status_and_report_say_which_directory_they_need(folder: Path, tmp_path: Path) -> None:
    assert "neither a site's directory nor a coordinator's" in call("status", str(tmp_path)).output
    assert "one directory" in call("report", "north", "south").output
    assert "leave these options out" in call("report", "north", "--for-release").output
    assert "leave --watch out" in call("status", "north", "--watch", "--json").output
    assert "can't be written" in str(call("status", "north", "--page", "no/such/page.html").exception)
    shutil.copytree("north", "fedveil-site")
    assert "there are fedveil-site and federation" in call("status").output


def test_serving_says_what_must_come_first(folder: Path) -> None:
    assert "'north' is not connected to anybody yet; first: fedveil site approve" in str(
        call("site", "serve", "--home", "north").exception
    )
    assert "not a site's directory" in str(call("site", "serve", "--home", "nowhere").exception)


def test_a_watch_ends_quietly_when_it_is_interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def interrupted(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("fedveil.cli.status.time.sleep", interrupted)
    ended = call("status", "north", "--watch", "--page", "page.html")
    assert (ended.exit_code, len(looks)) == (0, 2)
    assert ended.output.count("Site north: keeps its policy") == 2
    assert "interrupted" not in ended.output
    assert 'http-equiv="refresh"' in Path("page.html").read_text()


def test_a_watch_ends_by_itself_when_all_is_done(folder: Path, in_process: None) -> None:
    for name in ("north", "south"):
        call("site", "approve", f"federation/invitations/{name}.json", "--home", name, "--yes")
    assert call("federation", "run").exit_code == 0
    ended = call("status", "--watch", "--page", "page.html")
    assert (ended.exit_code, "finished" in ended.output) == (0, True)
    assert 'http-equiv="refresh"' not in Path("page.html").read_text()


def test_who_says_no_has_agreed_to_nothing(folder: Path, in_process: None) -> None:
    said = call("site", "approve", "federation/invitations/north.json", "--home", "north", answer="n\n")
    assert said.exit_code != 0
    ended = call("federation", "run")
    assert isinstance(ended.exception, FedveilError)
    assert "0 of 2 sites take part" in str(ended.exception)


def test_a_plan_over_the_policy_is_shown_as_a_refusal(folder: Path) -> None:
    settings = Path("north/site.toml")
    settings.write_text(settings.read_text().replace("epsilon = 1.0", "epsilon = 0.01", 1))
    said = call("site", "approve", "federation/invitations/north.json", "--home", "north", "--yes")
    assert "the policy here allows 0.01" in str(said.exception)


def test_a_changed_plan_is_not_one(folder: Path) -> None:
    invitation = Path("federation/invitations/north.json")
    changed = invitation.read_text().replace(r"\"deadline\":5.0", r"\"deadline\": 5.0")
    assert changed != invitation.read_text()
    invitation.write_text(changed)
    said = call("site", "approve", "federation/invitations/north.json", "--home", "north", "--yes")
    assert "not written as this version writes it" in str(said.exception)


def test_without_the_engine_the_commands_say_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "ENGINE", "fedveil.runtimes.not_there")
    for words in (("federation", "run"), ("site", "serve", "--home", "north", "--kit", "kit")):
        assert "fedveil[federation]" in str(call(*words).exception)
