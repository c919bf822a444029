"""The command line, used as a person uses it: through processes, in a temporary directory."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fedveil.ledger.store import Ledger

CANCER = ["--set", "data.name=cancer", "--seed", "1"]


def fedveil(*arguments: str, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fedveil.cli", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False, **options)


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fedveil.cli", *arguments]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_rounds(events: Path, count: int) -> None:
    for _ in range(6000):
        if events.exists() and events.read_text().count('"event": "round"') >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"{events} never reached {count} rounds")


def test_run_prints_one_json_object_and_leaves_a_run(tmp_path: Path) -> None:
    done = fedveil("run", "fed-cdp", *CANCER, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {"accuracy", "loss", "rounds", "seconds", "run"} <= set(result)
    assert result["rounds"] == 3
    assert (tmp_path / result["run"] / "model.safetensors").exists()
    assert "round 3/3" in done.stderr  # plain lines, since this is no terminal


def test_run_ends_with_the_accuracy_the_directory_and_what_to_do_next(call: Any) -> None:
    code, out, _ = call("run", "fedavg", *CANCER, "--rounds", "1", "--workers", "1", "--out", "right here")
    assert code == 0
    assert "accuracy" in out
    assert "run: right here" in out
    assert "not private: seeded" in out
    assert "next: fedveil report 'right here'" in out


def test_resuming_a_finished_run_says_so_and_nothing_is_told_without_its_ledger(call: Any) -> None:
    assert call("run", "fed-cdp", *CANCER, "--rounds", "1", "--workers", "1", "--out", "done")[0] == 0
    code, out, err = call("resume", "done")
    assert code == 0
    assert "finished already" in err
    assert "record × client, server" in out
    assert "NOT private: seeded. record-level, against the server: ε = " in out
    Path("done/ledger.sqlite").unlink()
    code, out, err = call("resume", "done")
    assert code == 2
    assert "the ledger is missing, so what was spent is not known" in err
    assert not out


def test_methods_lists_the_zoo(call: Any) -> None:
    code, out, _ = call("methods", "--json")
    assert code == 0
    assert {"fedsgd", "fedavg", "fed-cdp", "fed-cdp-decay"} <= {entry["name"] for entry in json.loads(out)["methods"]}
    assert "fed-cdp-decay" in call("methods")[1]


def test_data_list_says_what_is_there(call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path))
    monkeypatch.setattr("fedveil.data.sources.cache_directory", lambda: tmp_path / "cache")
    code, out, _ = call("data", "list")
    assert code == 0
    assert "cancer    here" in out
    assert "fedveil data fetch mnist" in out


def test_data_show_draws_a_picture(call: Any) -> None:
    code, out, _ = call("data", "show", "cancer", "--clients", "7", "--partition", "random", "--records", "20")
    assert code == 0
    assert "records per client 20" in out
    assert Path("cancer-random.png").read_bytes().startswith(b"\x89PNG")


def test_account_prints_the_table_and_the_claim_for_a_spec_and_what_was_spent_for_a_run(call: Any) -> None:
    code, out, _ = call("account", "fed-cdp", *CANCER[:2], "--json")
    assert code == 0
    told = json.loads(out)
    assert call("account", "fed-cdp", *CANCER[:2])[1].startswith("fed-cdp on cancer, 3 rounds: 100 clients with ")
    assert len(told["guarantees"]) == 10
    assert {"unit", "view", "relation", "epsilon", "delta", "accountant", "composition", "caveats"} <= set(
        told["guarantees"][0]
    )
    assert {"unit", "view", "epsilon", "delta", "source"} <= set(told["claimed"][0])
    _, bare, _ = call("account", "fedavg", *CANCER[:2], "--json")
    assert {cell["epsilon"] for cell in json.loads(bare)["guarantees"]} == {"inf"}
    assert call("run", "fed-cdp", *CANCER[:2], "--rounds", "2", "--workers", "1", "--out", "here")[0] == 0
    code, out, _ = call("account", "here", "--json")
    told = json.loads(out)
    assert code == 0
    assert len(told["per_client"]["epsilon"]) == 100
    assert len(told["promised"]) == 10
    code, out, _ = call("account", "here", "--all-accountants")
    assert "clients' own record × server" in out
    promised, spent = out.split("\nspent")
    assert "RDP" in promised
    assert "RDP" in spent


def test_account_draws_epsilon_over_rounds(call: Any) -> None:
    code, out, _ = call("account", "fed-cdp", *CANCER[:2], "--curve", "rounds", "--out", "curve.png")
    assert code == 0
    assert "picture: curve.png" in out
    assert Path("curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("solve", ["noise", "rounds", "cohort"])
def test_calibrate_answers_and_writes_a_spec_that_keeps_the_target(call: Any, solve: str) -> None:
    settings = ["--set", "data.name=cancer", "--set", 'batch={kind="poisson",size=8}']
    settings += ["--set", 'cohort={kind="poisson",rate=0.1}'] if solve == "cohort" else []
    view = "released" if solve == "cohort" else "server"
    target = ["--epsilon", "0.3" if solve == "cohort" else "1.5", "--delta", "1e-5", "--view", view]
    code, out, err = call("calibrate", "fed-cdp", *settings, *target, "--solve", solve, "--out", "mine.toml", "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert answer["guarantee"]["epsilon"] <= float(target[1])
    told = json.loads(call("account", "mine.toml", "--json")[1])
    (cell,) = [c for c in told["guarantees"] if (c["unit"], c["view"]) == ("record", view)]
    assert cell["epsilon"] == pytest.approx(answer["guarantee"]["epsilon"], rel=1e-6)


@pytest.mark.parametrize(("cohort", "key"), [('{kind="poisson",rate=0.1}', "rate"), ('{kind="fixed",size=20}', "size")])
def test_calibrate_names_a_cohort_by_the_key_that_sets_it(call: Any, cohort: str, key: str) -> None:
    settings = ["--set", "data.name=cancer", "--set", 'batch={kind="poisson",size=8}', "--set", f"cohort={cohort}"]
    target = ["--epsilon", "0.3", "--view", "released", "--solve", "cohort"]
    code, out, err = call("calibrate", "fed-cdp", *settings, *target)
    assert code == 0, err
    answer = out.splitlines()[0]
    assert answer.startswith(f"cohort.{key} = ")
    assert call("account", "fed-cdp", *settings, "--set", answer.replace(" ", ""))[0] == 0


def test_calibrate_names_the_place_of_the_noise_and_its_spec_has_the_budget_asked_for(call: Any) -> None:
    settings = ["--set", "data.name=cancer", "--set", "cohort.rate=0.1"]
    target = ["--epsilon", "2", "--unit", "client", "--view", "released"]
    code, out, err = call("calibrate", "geyer-private", *settings, *target, "--out", "mine.toml")
    assert code == 0, err
    assert out.startswith("server.sigma = ")
    privacy = tomllib.loads(Path("mine.toml").read_text())["privacy"]
    assert (privacy["epsilon"], privacy["unit"], privacy["view"]) == (2.0, "client", "released")


def test_a_calibrated_spec_without_a_budget_names_the_cell_for_one(call: Any) -> None:
    target = ["--epsilon", "8", "--unit", "client", "--out", "mine.toml"]
    code, _, err = call("calibrate", "fed-sdp-client", "--set", "data.name=cancer", *target)
    assert code == 0, err
    privacy = tomllib.loads(Path("mine.toml").read_text())["privacy"]
    assert (privacy["epsilon"], privacy["unit"], privacy["view"]) == ("none", "client", "server")


def test_calibrate_says_what_spoils_its_number(call: Any) -> None:
    target = ["--epsilon", "1", "--unit", "client", "--view", "released", "--set", "data.name=cancer"]
    code, out, err = call("calibrate", "geyer", *target)
    assert code == 0, err
    assert "NOT private as it stands: the clipping bound is read" in " ".join(out.split())


MISTAKES: list[tuple[list[str], str]] = [
    (["run", "fed-cpd"], "neither a method"),
    (["run", "missing.toml"], "missing.toml: can't be read"),
    (["run", "--set", "example.sgima=3"], "did you mean sigma?"),
    (["run", "--set", "example.sigma=-1"], "example.sigma: must not be negative"),
    (["run", "--set", "example.sigma=nan"], "example.sigma: must not be negative, infinite or NaN"),
    (["run", "--set", "example.clip.bound=0"], "example.clip.bound"),
    (["run", "--set", "example.sigma=lots"], "example.sigma: expected a number"),
    (["run", "--set", "nonsense"], "expected key=value"),
    (["run", "a" * 300], "File name too long"),
    (["run", "--set", "nonsense.key=1"], "unknown key"),
    (["run", "--rounds", "0"], "stop.rounds: must be a positive whole number"),
    (["run", *CANCER, "--set", "batch.size=500"], "batch of 500 is larger than client 0"),
    (["run", *CANCER, "--set", "cohort.size=500"], "500 clients a round, but there are only 100"),
    (["run", *CANCER, "--set", "model.name=resnet"], "there is no model 'resnet'"),
    (["run", *CANCER, "--set", "model.name=cnn"], "needs images"),
    (["run", *CANCER, "--set", "model.options.width=3"], "model.options"),
    (["run", *CANCER, "--workers", "0"], "workers: must be at least 1"),
    (["run", *CANCER, "--workers", "100000"], "workers: 100000 are too many here; at most "),
    (["run", "--set", "data.name=atlantis"], "unknown data set 'atlantis'"),
    (["resume", "."], "not a run directory"),
    (["data", "fetch", "atlantis"], "unknown data set 'atlantis'"),
    (["data", "show", "cancer", "--out", "x.foo"], "a picture is a PNG file, as in x.png"),
    (["account", "fed-cdp", "--curve", "rounds", "--out", "somewhere"], "a picture is a PNG file, as in somewhere.png"),
    (["data", "show", "cancer", "--set", "data.split=official"], "'cancer' has no official test set"),
    (["data", "show", "cancer", "--partition", "slices"], "data.partition: kind must be one of"),
    (["frobnicate"], "No such command"),
    (["account", *CANCER[:2], "--delta", "1.5"], "delta: must lie strictly between 0 and 1"),
    (["account", *CANCER[:2], "--delta", "nan"], "delta: must lie strictly between 0 and 1"),
    (["run", *CANCER, "--set", "privacy.delta=0"], "privacy.delta: must be above 0 and below 1"),
    (["run", *CANCER, "--set", "privacy.view=nobody"], "privacy.view: must be on_device or client or server"),
    (["calibrate", "fedavg", *CANCER[:2], "--epsilon", "1"], "calibration: needs exactly one mechanism"),
    (["calibrate", *CANCER[:2], "--epsilon", "-1"], "epsilon: must be a number that is not negative"),
    (["calibrate", *CANCER[:2]], "give one target: --epsilon, or --advantage, or --tpr with --fpr"),
    (["calibrate", *CANCER[:2], "--tpr", "0.05"], "give one target"),
    (["calibrate", *CANCER[:2], "--epsilon", "1", "--advantage", "0.1"], "give one target"),
    (["calibrate", *CANCER[:2], "--tpr", "0.01", "--fpr", "0.05"], "tpr: must lie between the false-positive rate"),
    (["run", "--workers", "many"], "not a valid integer"),
]


@pytest.mark.parametrize(("arguments", "complaint"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake_is_answered_in_one_line_with_exit_code_2(call: Any, arguments: list[str], complaint: str) -> None:
    code, out, err = call(*arguments)
    assert code == 2
    assert complaint in err
    assert err.count("\n") == 1
    assert not out
    assert not list(Path().iterdir())  # nothing half-made is left behind


def test_a_spec_that_is_not_toml_is_named(call: Any) -> None:
    Path("broken.toml").write_text("[data\nname=")
    code, _, err = call("run", "broken.toml")
    assert code == 2
    assert err.startswith("fedveil: broken.toml: not a TOML file")


def test_a_run_directory_in_use_is_not_overwritten(call: Any) -> None:
    assert call("run", "fedavg", *CANCER, "--rounds", "1", "--workers", "1", "--out", "here")[0] == 0
    code, _, err = call("run", "fedavg", *CANCER, "--out", "here")
    assert code == 2
    assert "already exists and is not empty" in err


def test_a_run_of_a_newer_version_is_refused(call: Any) -> None:
    call("run", "fedavg", *CANCER, "--rounds", "1", "--workers", "1", "--out", "here")
    about = json.loads(Path("here/run.json").read_text())
    Path("here/run.json").write_text(json.dumps({**about, "format": 99, "fedveil": "9.0"}))
    code, _, err = call("resume", "here")
    assert code == 2
    assert "made by fedveil 9.0 in format 99" in err


def test_ctrl_c_says_how_to_go_on_exits_with_130_and_loses_nothing(call: Any, tmp_path: Path) -> None:
    command = ["run", "fedavg", *CANCER, "--rounds", "30", "--set", "local.steps=25"]  # slow enough to be caught
    process = start(*command, "--workers", "2", "--out", "cut", cwd=tmp_path)
    wait_for_rounds(tmp_path / "cut/events.jsonl", 3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "fedveil resume cut" in err
    assert not out
    assert not list((tmp_path / "cut").rglob("*.part"))
    check_goes_on(call, command)


def check_goes_on(call: Any, command: list[str]) -> None:
    """What is left in `cut` becomes the model of an undisturbed run."""
    assert not Path("cut/model.safetensors").exists()
    code, _, err = call("resume", "cut", "--workers", "1")
    assert code == 0, err
    code, _, err = call(*command, "--workers", "1", "--out", "whole")
    assert code == 0, err
    assert Path("cut/model.safetensors").read_bytes() == Path("whole/model.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, 3])
def test_a_killed_run_leaves_no_workers_behind_and_resumes_to_the_same_model(
    kills: int, call: Any, tmp_path: Path
) -> None:
    command = ["run", "fed-cdp", *CANCER, "--rounds", str(12 * kills)]
    words = [*command, "--workers", "2", "--out", "cut"]
    for kill in range(kills):
        process = start(*words, cwd=tmp_path)
        wait_for_rounds(tmp_path / "cut/events.jsonl", 2 + 4 * kill)
        workers = children(process.pid)
        assert len(workers) == 2
        process.kill()
        process.communicate(timeout=300)
        for _ in range(1200):
            if not any(alive(worker) for worker in workers):
                break
            time.sleep(0.05)
        assert not any(alive(worker) for worker in workers)
        words = ["resume", "cut", "--workers", "2"]
    check_goes_on(call, command)


def kill_at_random(tmp_path: Path, kills: int) -> None:
    """Kill a run again and again; the ledger must always hold every round whose model was published."""
    moments = random.Random(1)
    command = ["run", "fed-cdp", "--set", "data.name=cancer", "--rounds", "100000", "--workers", "1", "--out", "cut"]
    for _ in range(kills):
        process = start(*command, cwd=tmp_path)
        before = published(tmp_path / "cut")
        deadline = time.monotonic() + 300
        while published(tmp_path / "cut") == before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(moments.random() * 0.3)
        assert process.poll() is None, process.communicate()[1]
        process.kill()
        process.communicate(timeout=300)
        rounds = published(tmp_path / "cut")
        assert rounds > before
        with Ledger(tmp_path / "cut/ledger.sqlite") as ledger:
            ledger.check_covers(rounds)
            paid = {(charge.round, charge.client) for charge in ledger.charges()}
            drawn = {(entry.round, client) for entry in ledger.rounds() for client in entry.cohort}
        assert paid == drawn
        command = ["resume", "cut", "--workers", "1"]


def published(directory: Path) -> int:
    checkpoints = sorted((directory / "checkpoints").glob("round-*.safetensors"))
    return int(checkpoints[-1].stem.removeprefix("round-")) if checkpoints else 0


def test_a_kill_never_makes_the_ledger_claim_less_than_was_published(tmp_path: Path) -> None:
    kill_at_random(tmp_path, kills=1)


@pytest.mark.slow
def test_many_kills_never_make_the_ledger_claim_less_than_was_published(tmp_path: Path) -> None:
    kill_at_random(tmp_path, kills=40)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("room", "done"),
    [pytest.param(8_000, range(1), id="at once"), pytest.param(24_000, range(1, 60), id="on the way")],
)
def test_a_full_disk_is_one_line_and_the_run_goes_on_when_there_is_room(
    room: int, done: range, call: Any, tmp_path: Path
) -> None:
    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    command = ["run", "fed-cdp", *CANCER, "--rounds", "60", "--set", "local.steps=2"]
    ended = fedveil(*command, "--workers", "1", "--out", "cut", cwd=tmp_path, preexec_fn=little_room)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("fedveil: cut/")
    assert not list((tmp_path / "cut").rglob("*.part"))
    assert published(tmp_path / "cut") in done
    check_goes_on(call, command)


def test_a_closed_output_is_no_traceback(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "fedveil.cli", "methods"],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait(timeout=300)
