"""`fedveil report` as a person uses it, on runs that ended in every way."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import tomllib
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import torch

from fedveil.cli import main
from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Relation
from fedveil.core.scores import FIGURES
from fedveil.core.tasks import Classification
from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset, Examples
from fedveil.ledger.store import Ledger
from fedveil.report.page.guarantee_sentences import status_words
from fedveil.report.terminal.run_progress import SilentReporter
from fedveil.runs.account import account
from fedveil.runs.derived_charges import round_charges
from fedveil.runs.read import read_run
from fedveil.runs.run import resume, run
from fedveil.studies.attack import attack
from fedveil.studies.audit import audit
from fedveil.studies.report import report, run_facts

SMALL: dict[str, Any] = {
    "data.name": "cancer",
    "data.clients": 12,
    "data.records": 20,
    "cohort.size": 4,
    "local.steps": 4,
    "stop.rounds": 4,
}


class Stops(SilentReporter):
    """Ctrl-C after so many rounds."""

    def __init__(self, after: int) -> None:
        self._after = after

    def round(self, done: int, rounds: int, measured: str) -> None:
        if done == self._after:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that are only read, or copied: finished, seeded, interrupted, attacked and audited."""
    where = tmp_path_factory.mktemp("runs")
    run("fed-cdp", SMALL, out=where / "finished", workers=1)
    run("fedavg", SMALL, seed=1, out=where / "seeded", workers=1)
    with pytest.raises(KeyboardInterrupt):
        run("fed-cdp", SMALL, out=where / "interrupted", workers=1, reporter=Stops(2))
    shutil.copytree(where / "finished", where / "attacked")
    attack(where / "attacked", view="on_device", victims=2, iterations=2, workers=1)
    audit(where / "attacked", canaries=12, seed=1, workers=1)
    return where


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], runs: Path) -> Any:
    """Calls `fedveil report` in this process, among the runs; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(runs)

    def report(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedveil", "report", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        return int(stop.value.code or 0), printed.out, printed.err

    return report


def test_a_finished_run_has_everything_on_its_page(call: Any, tmp_path: Path) -> None:
    code, out, err = call("attacked", "--out", str(tmp_path / "page.html"))
    assert (code, err) == (0, "")
    assert out.startswith("attacked: 4 of 4 rounds\n")
    html = (tmp_path / "page.html").read_text()
    for words in (
        "fed-cdp on cancer",
        "All 4 rounds were trained.",
        "12 clients with 20 records each",
        "record × client, server",
        "Accuracy over rounds",
        "ε over rounds",
        "Size of the updates",
        "client 11",
        "Attacks on this run",
        "data:image/png;base64,",
        "An adversary who sees every client&#x27;s update as it arrives tried to tell, 12 times",
        "keyed from the operating system",
        "[example.clip]",
        "dp-accounting",
    ):
        assert words in html, words
    assert str(tmp_path) not in html
    assert "unfinished" not in html
    assert len(html) < 400_000


def test_spent_is_what_account_says(call: Any, runs: Path, tmp_path: Path) -> None:
    told = account(runs / "finished")
    found = run_facts(read_run(runs / "finished"), "finished")
    assert told.spent is not None
    assert found.spent == told.spent.guarantees
    assert found.promised == told.promised.guarantees
    assert found.clients is not None
    assert found.clients.epsilon == told.per_client
    ends = {line.name: line.points[-1][1] for line in found.epsilon_lines}
    server = told.spent.of(Unit.RECORD, View.SERVER).epsilon
    assert any(value == pytest.approx(server) for name, value in ends.items() if "server" in name)


def test_no_records_are_needed_to_report_on_a_run(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the data set was read")

    monkeypatch.setattr("fedveil.config.public_facts.load", refuse)
    assert call("finished", "--out", str(tmp_path / "page.html"))[0] == 0


def test_an_interrupted_run_is_reported_as_unfinished(call: Any, tmp_path: Path) -> None:
    code, out, _ = call("interrupted", "--out", str(tmp_path / "page.html"), "--json")
    assert code == 0
    (told,) = json.loads(out)["runs"]
    assert (told["state"], told["rounds"], told["planned"], told["problems"]) == ("unfinished", 2, 4, [])
    html = (tmp_path / "page.html").read_text()
    assert "This run is unfinished" in html
    assert "2 of 4 rounds are published" in html


def test_a_run_that_died_in_a_round_counts_what_it_paid_for(call: Any, runs: Path, tmp_path: Path) -> None:
    crashed = tmp_path / "crashed"
    shutil.copytree(runs / "interrupted", crashed)
    with Ledger(crashed / "ledger.sqlite") as ledger:  # as the loop does before it sends the round; then it dies
        again = [replace(charge, round=2) for charge in ledger.charges() if charge.round == 1]
        ledger.charge(2, [charge.client for charge in again], again)
    events = crashed / "events.jsonl"
    events.write_text(events.read_text() + '{"event": "rou')
    code, out, _ = call(str(crashed), "--out", str(tmp_path / "page.html"))
    assert code == 0
    assert "events.jsonl: 1 of" in out
    html = (tmp_path / "page.html").read_text()
    assert "A further round was begun and paid for, but never published" in html
    assert "spent in 3 rounds, from the ledger" in html


def test_a_round_that_was_noted_but_never_saved_is_not_counted_as_published(runs: Path, tmp_path: Path) -> None:
    crashed = tmp_path / "crashed"
    shutil.copytree(runs / "interrupted", crashed)
    events = crashed / "events.jsonl"
    last = json.loads(events.read_text().splitlines()[-1])
    events.write_text(events.read_text() + json.dumps(last | {"round": last["round"] + 1}) + "\n")
    found = read_run(crashed)
    assert found.published == 2
    assert [event["round"] for event in found.events] == [0, 1]
    assert found.problems == []


def test_a_run_in_progress_is_reported_without_disturbing_it(call: Any, runs: Path, tmp_path: Path) -> None:
    busy = tmp_path / "busy"
    shutil.copytree(runs / "interrupted", busy)
    with Ledger(busy / "ledger.sqlite"):
        code, out, _ = call(str(busy), "--out", str(tmp_path / "page.html"))
    assert code == 0
    assert "the ledger is in use" in out
    assert "Another process is working on this run" in (tmp_path / "page.html").read_text()


def test_a_run_killed_before_its_first_round_has_a_page(call: Any, runs: Path, tmp_path: Path) -> None:
    early = tmp_path / "early"
    shutil.copytree(runs / "interrupted", early)
    for name in ("events.jsonl", "ledger.sqlite", "checkpoints"):
        path = early / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert call(str(early), "--out", str(tmp_path / "page.html"))[0] == 0
    html = (tmp_path / "page.html").read_text()
    assert "0 of 4 rounds" in html
    assert "No round has been published yet" not in html  # what is promised can be drawn


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("ledger.sqlite", None, "ledger.sqlite is missing: what was spent, and by whom, is not known"),
        ("ledger.sqlite", b"no database, but long enough to look like one" * 40, "ledger.sqlite: the ledger"),
        ("ledger.sqlite", b"", "the ledger has 0 of the 9 entries that ledger.head knows of"),
        ("events.jsonl", None, "events.jsonl is missing"),
        ("events.jsonl", b"\xff\xfe nonsense\n", "events.jsonl: 1 of 1 lines"),
        ("run.json", None, "run.json is missing"),
        ("result.json", b"{", "result.json: can't be read"),
    ],
)
def test_what_is_missing_or_damaged_is_said_and_the_rest_is_shown(
    call: Any, runs: Path, tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(runs / "finished", damaged)
    (damaged / name).unlink()
    if content is not None:
        (damaged / name).write_bytes(content)
    code, out, err = call(str(damaged), "--out", str(tmp_path / "page.html"))
    assert (code, err) == (0, "")
    assert words in out
    html = (tmp_path / "page.html").read_text()
    assert "Not everything could be read" in html
    assert str(tmp_path) not in html


@pytest.mark.parametrize("name", ["spec.toml", "run.json"])
def test_what_was_changed_afterwards_is_not_believed(call: Any, runs: Path, tmp_path: Path, name: str) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(runs / "finished", changed)
    text = (changed / name).read_text()
    old, new = ("sigma = 6.0", "sigma = 60.0") if name == "spec.toml" else ('"copies": ', '"copies": 1')
    assert old in text
    (changed / name).write_text(text.replace(old, new))
    code, out, _ = call(str(changed), "--out", str(tmp_path / "page.html"))
    assert code == 0
    assert "changed after the run began" in out
    html = (tmp_path / "page.html").read_text()
    assert "No guarantee can be stated" in html
    assert not re.search(r"ε = \d", html)
    code, _, err = call(str(changed), "--for-release", "--out", str(tmp_path / "page.html"))
    assert code == 2
    assert "what is guaranteed can't be checked" in err


def test_nothing_is_released_without_a_ledger(call: Any, runs: Path, tmp_path: Path) -> None:
    lost = tmp_path / "lost"
    shutil.copytree(runs / "finished", lost)
    (lost / "ledger.sqlite").unlink()
    code, _, err = call(str(lost), "--for-release", "--out", str(tmp_path / "page.html"))
    assert code == 2
    assert "ledger.sqlite is missing" in err
    assert not (tmp_path / "page.html").exists()


def test_nothing_is_released_from_the_small_files_of_a_run(call: Any, runs: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    for name in ("spec.toml", "run.json", "events.jsonl", "result.json"):
        shutil.copy(runs / "finished" / name, small / name)
    (small / "spec.toml").write_text((small / "spec.toml").read_text().replace("sigma = 6.0", "sigma = 60.0"))
    code, _, err = call(str(small), "--for-release", "--out", str(tmp_path / "page.html"))
    assert code == 2
    assert "what is guaranteed can't be checked" in err
    assert not (tmp_path / "page.html").exists()


def test_what_was_found_out_about_another_spec_is_no_evidence(call: Any, runs: Path, tmp_path: Path) -> None:
    edited = tmp_path / "edited"
    shutil.copytree(runs / "finished", edited)
    spec = (edited / "spec.toml").read_text()
    (edited / "spec.toml").write_text(spec.replace("sigma = 6.0", "sigma = 60.0"))
    audit(edited, canaries=12, seed=1, workers=1)
    attack(edited, view="on_device", victims=1, iterations=1, workers=1)
    (edited / "spec.toml").write_text(spec)
    code, out, _ = call(str(edited), "--out", str(tmp_path / "page.html"))
    assert code == 0
    assert out.count("found out about another spec than this run's; remove it") == 2
    html = (tmp_path / "page.html").read_text()
    assert "No attack on this run is known" in html
    assert "No audit of this run is known" in html
    code, _, err = call(str(edited), "--for-release", "--out", str(tmp_path / "page.html"))
    assert code == 2
    assert "audits/001-record-server.json: found out about another spec" in err


def test_several_runs_and_a_series_are_one_page(call: Any, runs: Path, tmp_path: Path) -> None:
    series = tmp_path / "series"
    (series / "runs").mkdir(parents=True)
    (series / "series.json").write_text("{}")
    shutil.copytree(runs / "interrupted", series / "runs" / "first")
    code, out, _ = call("finished", "seeded", str(series), "--out", str(tmp_path / "page.html"))
    assert code == 0
    assert out.splitlines()[:3] == [
        "finished: 4 of 4 rounds",
        "seeded: 4 of 4 rounds",
        "first: 2 of 4 rounds (unfinished)",
    ]
    html = (tmp_path / "page.html").read_text()
    assert "3 trainings side by side" in html
    assert "not private: seeded" in html


def test_for_release_holds_only_what_is_declared_or_follows_from_the_models(
    call: Any, runs: Path, tmp_path: Path
) -> None:
    for name in ("attacked", "seeded"):
        assert call(name, "--for-release", "--out", str(tmp_path / "page.html"))[0] == 0
        html = (tmp_path / "page.html").read_text()
        assert "Made for release" in html
        for words in ("Training loss", "Size of the updates", "How often clients took part", "Attacks on this run"):
            assert words not in html
        assert "data:image" not in html
        assert "spent" not in html.split("</style>")[1].replace("it is kept before it is spent", "")
        assert "seed = 1" not in html
    assert "which is withheld here" in html
    spec = html.split('<pre tabindex="0">')[1].split("</pre>")[0]
    assert resolve(tomllib.loads(unescape(spec))) == replace(resolve(runs / "seeded" / "spec.toml"), seed=None)


@pytest.mark.parametrize("spoilt", [{"rmse": None}, {"client": "nobody"}, {"client": math.inf}, {"truth": None}])
def test_an_attack_that_cannot_be_read_is_said_and_the_rest_is_shown(
    call: Any, runs: Path, tmp_path: Path, spoilt: dict[str, Any]
) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(runs / "attacked", damaged)
    (result,) = (damaged / "attacks").glob("*/result.json")
    told = json.loads(result.read_text())
    told["records"] = [
        {"client": 1, "rmse": 0.5, "truth": "record-1-truth.png", "found": "record-1-found.png"} | spoilt
    ]
    result.write_text(json.dumps(told))
    code, out, err = call(str(damaged), "--out", str(tmp_path / "page.html"))
    assert (code, err) == (0, "")
    assert "001-on_device: what the attack left can't be read" in out
    html = (tmp_path / "page.html").read_text()
    assert "No attack on this run is known" in html
    assert "Audit bounds" in html
    assert str(tmp_path) not in html
    assert call(str(damaged), "--for-release", "--out", str(tmp_path / "page.html"))[0] == 0


def test_a_run_whose_audit_cannot_be_read_is_not_released(call: Any, runs: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(runs / "attacked", damaged)
    audits = damaged / "audits" / "001-record-server.json"
    told = json.loads(audits.read_text())
    del told["verdict"]
    audits.write_text(json.dumps(told))
    code, _, err = call(str(damaged), "--for-release", "--out", str(tmp_path / "page.html"))
    assert code == 2
    assert (
        "an audit may have broken the promise (001-record-server.json: what the audit left is not of this version"
        in err
    )
    audits.write_text("{")
    code, out, _ = call(str(damaged), "--out", str(tmp_path / "page.html"))
    assert code == 0
    assert "audits/001-record-server.json: can't be read" in out
    assert str(tmp_path) not in (tmp_path / "page.html").read_text()
    code, _, err = call(str(damaged), "--for-release", "--out", str(tmp_path / "page.html"))
    assert code == 2
    assert "an audit may have broken the promise" in err


def test_a_finished_run_whose_result_is_damaged_is_not_called_crashed(call: Any, runs: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(runs / "finished", damaged)
    (damaged / "result.json").write_text("{")
    code, out, _ = call(str(damaged), "--out", str(tmp_path / "page.html"))
    assert code == 0
    assert "damaged: 4 of 4 rounds\n" in out
    assert "interrupted or crashed" not in (tmp_path / "page.html").read_text()
    with pytest.raises(
        FedveilError, match=r"result\.json: can't be read .*; remove it, and it is made again .*: fedveil resume "
    ):
        resume(damaged)
    (damaged / "result.json").unlink()
    assert resume(damaged, workers=1).rounds == 4


def test_of_records_of_your_own_the_page_says_how_they_are_brought(tmp_path: Path) -> None:
    inputs, labels = torch.rand(80, 4), torch.arange(80) % 2
    train, validation = Examples(inputs[:60], labels[:60]), Examples(inputs[60:], labels[60:])
    mine = Dataset("mine", train, validation, Classification(("no", "yes")), (4,))
    settings = {"model.name": "mlp", "data.clients": 4, "data.records": 10, "cohort.size": 2, "stop.rounds": 1}
    run("fedavg", settings, dataset=mine, out=tmp_path / "run", workers=1)
    report([tmp_path / "run"], tmp_path / "page.html")
    html = unescape((tmp_path / "page.html").read_text())
    assert "fedveil.run('spec.toml', out='again', dataset=…)" in html
    assert "fedveil run spec.toml" not in html


def test_for_release_a_name_tells_no_seed(call: Any, runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "seeded", tmp_path / "fedavg-seed4321")
    assert call(str(tmp_path / "fedavg-seed4321"), "--for-release", "--out", str(tmp_path / "page.html"))[0] == 0
    assert "4321" not in (tmp_path / "page.html").read_text()


def test_a_run_whose_audit_broke_the_promise_is_not_released(call: Any, runs: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(runs / "attacked", broken)
    told = json.loads(next((broken / "audits").glob("*.json")).read_text())
    told |= {"view": "released", "verdict": "contradicted"}
    told["checks"][0]["chance"] = 0.0
    (broken / "audits" / "002-record-released.json").write_text(json.dumps(told))
    code, _, err = call(str(broken), "--for-release", "--out", str(tmp_path / "page.html"))
    assert code == 2
    assert "an audit broke the promise" in err
    assert call(str(broken), "--out", str(tmp_path / "page.html"))[0] == 0
    assert "broke the promise" in (tmp_path / "page.html").read_text()


def test_for_release_states_what_was_spent_where_repeated_rounds_cost_more_than_the_promise(tmp_path: Path) -> None:
    repeated = tmp_path / "repeated"
    with pytest.raises(KeyboardInterrupt):
        run("fed-cdp", SMALL | {"cohort.size": 12}, out=repeated, workers=1, reporter=Stops(1))
    with Ledger(repeated / "ledger.sqlite") as ledger:  # a round that was sent to its clients, and then it died
        again = [replace(charge, round=1) for charge in ledger.charges()]
        ledger.charge(1, [charge.client for charge in again], again)
    resume(repeated, workers=1)
    found, released = (run_facts(read_run(repeated), "repeated", release=release) for release in (False, True))
    (spent, promised, stated) = (
        next(cell.epsilon for cell in cells or () if (cell.unit, cell.view) == (Unit.RECORD, View.SERVER))
        for cells in (found.spent, found.promised, released.promised)
    )
    assert stated == spent > promised
    assert (found.status.repeated, released.status.repeated) == (1, 0)
    assert "Rounds begun again after an interruption: 1; every attempt counts." in status_words(found.status)[1]


def test_for_release_compares_what_was_spent_under_the_relation_of_the_promise(tmp_path: Path) -> None:
    """Two noises, each with a relation of its own: repeated rounds cost one of them more, so the other is better."""
    cell = (Unit.RECORD, View.RELEASED)
    settings = {
        "data": {"name": "cancer", "clients": 40, "records": 5, "partition": "random"},
        "cohort": {"kind": "fixed", "size": 6},
        "batch": "all",
        "local": {"steps": 1},
        "example": {"clip": {"bound": 1.0}, "sigma": 10.0},
        "upload": {"clip": {"bound": 1.0}, "sigma": 3.0, "unit": "client"},
        "stop": {"rounds": 30},
    }
    with pytest.raises(KeyboardInterrupt):
        run({"method": "fedavg"} | settings, out=tmp_path / "run", workers=1, reporter=Stops(15))
    context = read_run(tmp_path / "run").context
    assert context is not None
    with Ledger(tmp_path / "run" / "ledger.sqlite") as ledger:
        for attempt in range(20):  # that were begun and lost, every time with others
            cohort = sorted((6 * attempt + member) % 40 for member in range(6))
            ledger.charge(15, cohort, round_charges(context)(15, cohort, None))
    resume(tmp_path / "run", workers=1)
    found = account(tmp_path / "run")
    released = run_facts(read_run(tmp_path / "run"), "run", release=True)
    (stated,) = [each for each in released.promised or () if (each.unit, each.view) == cell]
    promise, spent = found.promised.of(*cell), found.spent.of(*cell)
    assert (promise.relation, spent.relation) == (Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE)
    assert promise.epsilon < spent.epsilon < stated.epsilon
    assert stated.relation is Relation.REPLACE_ONE
    assert stated.epsilon == found.spent.under(Relation.REPLACE_ONE, *cell).epsilon


def test_for_release_audits_that_trained_on_real_records_are_left_out(call: Any, runs: Path, tmp_path: Path) -> None:
    audited = tmp_path / "audited"
    shutil.copytree(runs / "attacked", audited)
    told = json.loads(next((audited / "audits").glob("*.json")).read_text()) | {"view": "released"}
    (audited / "audits" / "002-record-released.json").write_text(json.dumps(told))
    for options, shown in (([], True), (["--for-release"], False)):
        assert call(str(audited), *options, "--out", str(tmp_path / "page.html"))[0] == 0
        table = (tmp_path / "page.html").read_text().split("<caption>Audit bounds")[1].split("</table>")[0]
        assert "record × server" in table
        assert ("record × released" in table) is shown


def test_for_release_states_what_is_promised_however_often_clients_were_drawn(runs: Path) -> None:
    inside = run_facts(read_run(runs / "finished"), "finished")
    outside = run_facts(read_run(runs / "finished"), "finished", release=True)
    assert outside.guarantees == inside.promised
    assert outside.clients is None
    of_the_model = {"event", "round", "loss", "majority", *FIGURES}
    assert all(set(event) <= of_the_model for event in outside.rounds)


def test_pictures_can_be_left_out(call: Any, tmp_path: Path) -> None:
    assert call("attacked", "--without-pictures", "--out", str(tmp_path / "page.html"))[0] == 0
    assert "data:image" not in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere: not a run directory (spec.toml is missing)"),
        (["finished", "--out", "no/such/page.html"], "--out: no/such/page.html can't be written"),
        (["finished", "--out", "."], "--out: . can't be written"),
        ([], "Missing argument 'RUN...'"),
    ],
)
def test_bad_input_is_one_line(call: Any, arguments: list[str], words: str) -> None:
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_attacks_and_audits_of_a_run_are_kept_in_it_unless_told_otherwise(runs: Path, tmp_path: Path) -> None:
    kept = runs / "attacked"
    assert [path.name for path in (kept / "attacks").iterdir()] == ["001-on_device"]
    assert [path.name for path in (kept / "audits").iterdir()] == ["001-record-server.json"]
    mine = tmp_path / "mine"
    shutil.copytree(runs / "finished", mine)
    attack(mine, view="on_device", victims=1, iterations=1, workers=1, keep=False)
    audit(mine, canaries=12, seed=1, workers=1, keep=False)
    assert not (mine / "attacks").exists()
    assert not (mine / "audits").exists()


def test_an_audit_of_a_run_takes_no_settings(runs: Path) -> None:
    from fedveil import FedveilError

    with pytest.raises(FedveilError, match="a run is what it is"):
        audit(runs / "finished", {"local.steps": 2})
