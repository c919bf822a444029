"""The journey from files to a model on the command line, with sites in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from federation_scene import SCHEMA, write_table

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
        "what it costs this site, counting on nobody else (δ = 0.001)",
        "record × server",
        "The server and its operator see each client's update as it arrives",
        "of at most 1 (δ = 0.001)",
        "for ever: ε = 0 spent",
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
    assert "0 missed" in call("federation", "status").output
    assert "answers sent" in call("site", "status", "--home", "north").output


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
    for words in (("federation", "run"), ("site", "serve", "--home", "north")):
        assert "fedveil[federation]" in str(call(*words).exception)
