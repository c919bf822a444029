"""`compare`, `sweep` and `show`, used as a person uses them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SMALL = ["--set", "data.name=cancer", "--set", "local.steps=5", "--workers", "1"]


def test_compare_prints_a_table_and_leaves_it_with_a_picture_and_the_runs(call: Any) -> None:
    arguments = ["compare", "fedavg", "--methods", "fed-cdp", *SMALL, "--rounds", "2", "--seeds", "2", "--out", "here"]
    code, out, err = call(*arguments)
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0].startswith("best with a promise: fed-cdp, accuracy ")
    assert max(map(len, lines)) <= 80
    table = {line.split()[0]: line for line in lines if "±" in line}
    assert "∞" in table["fedavg"]
    assert table["fed-cdp"].split()[-1].isdigit()
    assert "its paper claims ε = " in out
    assert "  · not private: seeded" in lines
    assert "picture: here/compare.png" in lines
    assert "tables:  here/table.md, table.csv" in lines
    assert sorted(path.name for path in Path("here").iterdir()) == [
        "compare.png", "runs", "series.json", "table.csv", "table.md",
    ]  # fmt: skip
    assert sorted(path.name for path in Path("here/runs").iterdir()) == [
        "fed-cdp-seed1", "fed-cdp-seed2", "fedavg-seed1", "fedavg-seed2",
    ]  # fmt: skip
    assert "4/4 fed-cdp-seed2: accuracy" in err
    code, again, err = call(*arguments)
    assert (code, again) == (0, out)
    assert err == "4 of 4 runs are finished already\n"
    code, _, err = call(*arguments, "--set", "local.rate=0.5")
    assert code == 2
    assert "was made with another local.rate (0.002 there, 0.5 now)" in err
    assert "ask for the same runs again, or choose another directory" in err


def test_compare_prints_one_json_object(call: Any) -> None:
    code, out, _ = call("compare", "fed-cdp", *SMALL, "--rounds", "1", "--seed", "7", "--unit", "client", "--json")
    assert code == 0
    told = json.loads(out)
    (row,) = told["methods"]
    assert {"accuracy", "best", "rounds", "seconds", "epsilon", "claimed"} <= set(row)
    assert list(row["epsilon"]) == ["record × server", "client × released", "client × server"]
    assert (Path(told["out"]) / "runs/fed-cdp-seed7/result.json").exists()
    assert Path(told["picture"]).exists()
    assert told["notes"] == ["not private: seeded"]


def test_sweep_prints_the_grid_and_leaves_it_with_a_picture(call: Any) -> None:
    arguments = ["sweep", "fed-cdp", "--over", "example.sigma=1,20", *SMALL, "--rounds", "1", "--seeds", "2"]
    code, out, err = call(*arguments, "--out", "grid")
    assert code == 0, err
    assert "±" in out
    assert "not private: seeded" in out
    assert "picture: grid/sweep.png" in out
    assert Path("grid/sweep.png").read_bytes().startswith(b"\x89PNG")
    assert "s left" in err
    code, out, _ = call(*arguments, "--out", "grid", "--json")
    assert code == 0
    first, second = json.loads(out)["points"]
    assert first["point"] == {"example.sigma": 1}
    assert first["epsilon"]["record × server"]["promised"] > second["epsilon"]["record × server"]["promised"]


def test_show_draws_runs_and_whole_comparisons(call: Any) -> None:
    call("compare", "fedavg", "fed-cdp", *SMALL, "--rounds", "2", "--out", "here")
    code, out, err = call("show", "here/runs/fedavg")
    assert code == 0, err
    assert "fedavg on cancer, 2 rounds, accuracy" in out
    assert Path("fedavg-course.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = call("show", "here", "--out", "all.png")
    assert code == 0
    assert out.count("on cancer") == 2
    assert Path("all.png").exists()


MISTAKES: list[tuple[list[str], str]] = [
    (["compare"], "nothing to compare"),
    (["compare", "fedavg", "fed-cpd"], "fed-cpd: neither a method"),
    (["compare", "fed-cdp", "fedavg", "--set", "example.sigma=1"], "(fedavg with these settings; for one method's own"),
    (["compare", "--methods", "fedavg,,fed-cdp"], "expected names with commas between them"),
    (["compare", "fedavg", "fedavg"], "fedavg: named twice"),
    (["compare", "fedavg", "--seeds", "0"], "--seeds: must be at least 1, not 0"),
    (["compare", "fedavg", "--seeds", "1001"], "1,001 runs are more than the 1,000"),
    (["compare", "fedavg", "--seeds", "2", "--seed", "1"], "--seed and --seeds: give one of them"),
    (["compare", "fedavg", *SMALL, "--set", "cohort.size=500"], "there are only 100"),
    (["compare", "fedavg", *SMALL, "--view", "nobody"], "Invalid value for '--view'"),
    (["compare", "fedavg", *SMALL, "--workers", "0"], "workers: must be at least 1"),
    (["compare", "fedavg", *SMALL, "--out", "/dev/null/here"], "Not a directory"),
    (["sweep", "--over", "example.sgima=1,2", "--out", "x"], "did you mean sigma?"),
    (["sweep", "--over", "example.sigma=", "--out", "x"], "without empty values"),
    (["sweep", "--over", "example.sigma=1,2", "--seeds", "0", "--out", "x"], "--seeds: must be at least 1"),
    (["sweep", "fed-cpd", "--over", "example.sigma=1,2", "--out", "x"], "fed-cpd: neither a method"),
    (["sweep", "--over", "example.sigma=1,2"], "Missing option '--out'"),
    (["sweep", "--out", "x"], "Missing option '--over'"),
    (["show", "."], "not a run directory"),
    (["show"], "Missing argument"),
]


@pytest.mark.parametrize(("arguments", "complaint"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake_is_answered_in_one_line_with_exit_code_2(call: Any, arguments: list[str], complaint: str) -> None:
    code, out, err = call(*arguments)
    assert code == 2
    assert complaint in err
    assert err.count("\n") == 1
    assert not out
    assert not list(Path().iterdir())  # nothing half-made is left behind


def test_an_out_that_holds_something_else_is_left_alone(call: Any) -> None:
    Path("mine").mkdir()
    Path("mine/thesis.tex").write_text("…")
    for command in (["compare", "fedavg"], ["sweep", "--over", "example.sigma=1,2"]):
        code, _, err = call(*command, *SMALL, "--out", "mine")
        assert code == 2
        assert "--out: mine holds something that is not a" in err
    assert [path.name for path in Path("mine").iterdir()] == ["thesis.tex"]


def test_failed_runs_are_in_the_table_and_in_the_exit_code(call: Any) -> None:
    wild = ["--set", "local.steps=1", "--set", "aggregate.rate=1e30", "--seeds", "1", "--rounds", "1"]
    code, out, err = call("sweep", "fedavg", "--over", "local.rate=1e-30,1e12", *SMALL, *wild, "--out", "grid")
    assert code == 2
    assert "failed" in out
    assert err.splitlines()[-1].startswith("fedveil: 1 of the runs failed: local.rate=1000000000000.0-seed1: round 0:")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["compare", "fedavg", "fed-cdp"], id="compare"),
        pytest.param(["sweep", "fed-cdp", "--over", "example.sigma=1,2", "--seeds", "1"], id="sweep"),
    ],
)
def test_ctrl_c_says_how_to_go_on_and_the_same_command_does(call: Any, tmp_path: Path, command: list[str]) -> None:
    arguments = [*command, *SMALL, "--rounds", "15", "--out", "cut"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fedveil.cli", *arguments],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        if any("train_loss" in path.read_text() for path in tmp_path.glob("cut/runs/*/events.jsonl")):
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert not out
    assert "Traceback" not in err
    assert "go on with the same command and --out cut" in err
    assert "fedveil resume" not in err
    assert len(list(tmp_path.glob("cut/runs/*/result.json"))) < 2
    assert not (tmp_path / "cut/table.md").exists()
    code, _, err = call(*arguments)
    assert code == 0, err
    assert len(list(tmp_path.glob("cut/runs/*/result.json"))) == 2
    assert (tmp_path / "cut/table.md").exists()
