"""The declarations of all reproductions, and what is made of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from series_follower import Follower, interrupt_at

from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.core.openness import OWN_TESTS
from fedveil.core.types import View
from fedveil.data.known_sets import SETS
from fedveil.papers import catalogue as known
from fedveil.papers.catalogue import REPRODUCTIONS
from fedveil.papers.geyer import EPSILON, allowed_rounds
from fedveil.papers.planned_work import chosen, digest, make_plan, planned_runs, run_name, spec_of
from fedveil.papers.printed_tables import Printed, number, printed_tables
from fedveil.papers.reproduce import reproduce
from fedveil.papers.reproduction import (
    RECORD,
    Cell,
    FigureLine,
    Leak,
    Reproduction,
    Scale,
    Setting,
    Training,
    of_event,
)
from fedveil.papers.time_estimates import listing
from fedveil.papers.values import after, final_accuracy, leak_value, reaching, succeeded, verified_epsilon
from fedveil.studies.series import Done

SCALES: tuple[Scale, ...] = ("small", "paper")


def any_epsilon(stated: object) -> float:
    return 1.0


# The declarations


def test_every_printed_table_is_declared_and_every_declaration_is_printed() -> None:
    assert set(REPRODUCTIONS) == set(printed_tables())


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", sorted(printed_tables()))
def test_every_printed_number_has_its_cell_and_every_other_cell_is_marked_as_added(name: str, scale: Scale) -> None:
    declaration = REPRODUCTIONS[name]
    places = [(cell.row, cell.column) for cell in declaration.cells(scale)]
    assert len(places) == len(set(places))
    printed = declaration.printed
    assert {(row, column) for row in printed.rows for column in printed.columns} == {
        (cell.row, cell.column) for cell in declaration.cells(scale) if not cell.added
    }


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", sorted(printed_tables()))
def test_every_piece_of_work_has_a_valid_spec(name: str, scale: Scale) -> None:
    plan = make_plan(REPRODUCTIONS[name], scale, None)
    for cell in plan.cells:
        spec = spec_of(cell.work, any_epsilon)
        if isinstance(cell.work, Training) and cell.work.budget is not None:
            assert spec.privacy.epsilon is not None
            assert spec.privacy.calibrate
    runs = planned_runs(plan, any_epsilon)
    assert len({run.name for run in runs}) == len(runs)
    assert all(run.spec.seed is not None for run in runs)
    assert plan.declaration.scales[scale]


def test_the_paper_scale_of_table_2_is_the_stated_setting() -> None:
    (cell,) = [
        c for c in REPRODUCTIONS["fed-cdp-table-2"].cells("paper") if (c.row, c.column) == ("Fed-CDP", "K=1000 10%")
    ]
    spec = spec_of(cell.work, any_epsilon)
    assert (spec.data.clients, spec.data.records, spec.method.rounds) == (1000, 500, 100)
    assert (spec.method.local_steps(500), spec.method.batch.declared(500)) == (100, 5)
    assert spec.method.cohort.divisor(1000) == 100
    assert spec.method.example == resolve("fed-cdp").method.example


def test_tables_share_the_trainings_that_they_both_need() -> None:
    def names(table: str) -> set[str]:
        return {run.name for run in planned_runs(make_plan(REPRODUCTIONS[table], "paper", (1,)), any_epsilon)}

    assert names("fed-cdp-table-4") & names("fed-cdp-table-5") & names("fed-cdp-table-2")
    assert names("geyer-figure-1") <= names("geyer-table-1")
    assert names("prifedsync-figure-1") <= names("prifedsync-table-1")


def test_remarks_hold_no_measured_numbers() -> None:
    for declaration in REPRODUCTIONS.values():
        for remark in declaration.remarks:
            assert not any(word.startswith("0.") for word in remark.replace("(", " ").split()), remark


def test_the_list_gives_every_reproduction_with_a_time() -> None:
    found = listing()
    assert [one["name"] for one in found] == list(REPRODUCTIONS)
    assert all(one["small"].endswith((" s", " min")) for one in found)


def test_geyers_rounds_are_the_last_that_keep_the_bound() -> None:
    from fedveil.accounting.claims import geyer_delta

    rounds = allowed_rounds(50, 100, 1e-3, 1.0)
    assert geyer_delta(1.0, 50, 100, rounds, EPSILON) <= 1e-3 < geyer_delta(1.0, 50, 100, rounds + 1, EPSILON)


def test_a_papers_number_is_found_by_its_names_and_an_empty_place_is_none() -> None:
    assert number("fed-cdp-table-2", "Fed-CDP", "K=1000 10%") == 0.956
    assert printed_tables()["geyer-table-1"].value("non-private, K=100", "δ bound") is None
    assert printed_tables()["fed-cdp-table-2"].value("nobody", "K=1000 10%") is None


def test_names_of_runs_follow_the_settings_and_not_the_seed_or_defaults() -> None:
    plain = resolve("fed-cdp", {"data.name": "cancer"})
    assert run_name(plain) == run_name(resolve("fed-cdp", {"data.name": "cancer", "seed": 7, "data.split": "own"}))
    assert digest(plain) != digest(resolve("fed-cdp", {"data.name": "cancer", "example.sigma": 5.0}))


def test_noise_on_each_row_has_a_name_of_its_own() -> None:
    plain = resolve("fed-cdp", {"data.name": "cancer"})
    assert digest(plain) == digest(resolve("fed-cdp", {"data.name": "cancer", "example.each_row": False}))
    assert digest(plain) != digest(resolve("fed-cdp", {"data.name": "cancer", "example.each_row": True}))


@pytest.mark.parametrize("name", ["fed-cdp-table-7", "fed-cdp-figure-4"])
@pytest.mark.parametrize("scale", ["small", "paper"])
def test_whoever_taps_devices_meets_rows_that_carry_the_noise_of_fed_cdp(name: str, scale: Scale) -> None:
    plan = make_plan(REPRODUCTIONS[name], scale, None)
    leaks = {(cell.row + cell.column): cell.work for cell in plan.cells if isinstance(cell.work, Leak)}
    noised = [work for work in leaks.values() if spec_of(work, lambda stated: 1.0).method.noises_rows]
    assert noised
    assert {(work.source, work.view) for work in noised} == {
        ("fed-cdp", View.ON_DEVICE),
        ("fed-cdp-decay", View.ON_DEVICE),
    }
    tapped = [work for work in leaks.values() if work.view is View.ON_DEVICE and "cdp" in work.source]
    assert tapped == noised


def test_trainings_on_features_made_with_other_constants_have_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [resolve("fed-cdp", {"data.name": name}) for name in ("mnist", "cancer", "adult")]
    before = [run_name(spec) for spec in specs]
    for name in ("cancer", "adult"):
        monkeypatch.setitem(SETS, name, replace(SETS[name], encoding="others"))
    assert [run_name(spec) == name for spec, name in zip(specs, before, strict=True)] == [True, False, False]


def test_trainings_that_were_kept_are_known_by_their_names() -> None:
    kept = Path(__file__).parents[2] / "docs/results/paper/runs"
    for path in kept.iterdir():
        assert f"{run_name(resolve(path / 'spec.toml'))}-seed1" == path.name


def test_a_page_says_which_use_of_private_records_no_epsilon_covers(
    tmp_path: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = reproduce(table, follower=Follower(), out=tmp_path / "r", workers=1)
    assert OWN_TESTS.text not in found.notes
    monkeypatch.setitem(TINY, "data.test", 4)
    found = reproduce(table, follower=Follower(), out=tmp_path / "r", workers=1)
    assert found.notes.count(OWN_TESTS.text) == 1
    assert f"- {OWN_TESTS.text}" in (found.out / "table.md").read_text(encoding="utf-8")


# Values


def _done(values: list[float | None]) -> Done:
    return Done("x", None, tuple({"round": index, "a": value} for index, value in enumerate(values)))


def test_the_round_that_reaches_a_goal_is_the_first_and_where_none_does_words_say_how_far_it_came() -> None:
    anything = cast("Any", None)
    assert reaching(0.5, "a")(_done([0.1, None, 0.6, 0.4, 0.7]), anything) == 3
    assert reaching(0.9, "a")(_done([0.1, 0.6]), anything) == "not reached in 2 rounds (best 0.6000)"
    assert after(3, "a")(_done([0.1, 0.2, None, 0.4]), anything) == 0.2
    assert after(None, "a")(_done([0.1, 0.2, None, 0.4]), anything) == 0.4


# The command's work, on a table of its own

TINY = {"data.name": "cancer", "local.steps": 3, "stop.rounds": 2, "cohort.size": 2, "data.clients": 4}
WILD = {"local.steps": 1, "local.rate": 1e12, "aggregate.rate": 1e30}


def _cells(scale: Scale) -> list[Cell]:
    return [
        Cell("plain", "accuracy", Training("fedavg", TINY), final_accuracy, RECORD),
        Cell("Fed-CDP", "accuracy", Training("fed-cdp", TINY), final_accuracy, RECORD),
        Cell("Fed-CDP", "ε", Setting("fed-cdp", TINY), verified_epsilon(*RECORD), RECORD, certified=True),
        Cell("wild", "accuracy", Training("fedavg", TINY | WILD), final_accuracy, RECORD, added=True),
    ]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> str:
    """A small table of a paper that nobody wrote."""
    rows = {"plain": (0.9, ""), "Fed-CDP": (0.5, 2.0)}
    printed = Printed("tiny-table", "Nobody 2000", "Table 0", "Nothing", "torn", ("accuracy", "ε"), rows)
    declaration = Reproduction(
        name="tiny-table",
        title="A tiny table",
        cells=_cells,
        lines=lambda scale: [FigureLine("line", Training("fedavg", TINY), {"accuracy": of_event("accuracy")})],
        seeds={"small": 2, "paper": 3},
        scales={"small": "tiny", "paper": "as tiny"},
        remarks=("It is so because it is so.",),
    )
    tables = {**printed_tables(), "tiny-table": printed}
    monkeypatch.setattr("fedveil.papers.reproduction.printed_tables", lambda: tables)
    monkeypatch.setattr(known, "REPRODUCTIONS", {"tiny-table": declaration})
    return "tiny-table"


def test_a_table_is_made_with_the_papers_values_deviations_guarantees_and_a_page(tmp_path: Path, table: str) -> None:
    page = tmp_path / "docs" / "tiny.md"
    found = reproduce(table, follower=Follower(), out=tmp_path / "r", workers=1, page=page)
    plain, private, epsilon, wild = found.rows
    assert plain["paper"] == 0.9
    assert 0 <= plain["ours"] <= 1
    assert plain["deviation"] is not None
    assert plain["verified"] == "inf"
    assert private["claimed"] < private["verified"] < 10
    assert epsilon["paper"] == 2.0
    assert epsilon["ours"] == epsilon["promised"] == private["promised"]
    assert (wild["words"], wild["ours"], wild["failed"]) == ("diverged", None, 2)
    assert len(found.failed) == 2
    for name in ("table.csv", "table.md", "picture.png"):
        assert (found.out / name).is_file()
    text = page.read_text(encoding="utf-8")
    assert "fedveil reproduce tiny-table --scale small\n" in text
    assert "(0.5)" in text
    assert "diverged" in text
    assert "- It is so because it is so." in text
    assert "- the paper: torn" in text
    assert "not private: seeded" in text
    assert "![A tiny table](tiny.png)" in text
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    lines = (found.out / "table.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("row,column,paper,ours,deviation")
    assert len(lines) == 5


def test_part_of_a_table_and_then_the_whole_share_their_runs(tmp_path: Path, table: str) -> None:
    first = Follower()
    part = reproduce(table, follower=first, out=tmp_path, workers=1, only=["fed-cdp/acc*"], seeds=1)
    assert [row["row"] for row in part.asked] == ["Fed-CDP"]
    assert len(first.trained) == 1
    assert [row["words"] for row in part.rows if row["row"] != "Fed-CDP"] == ["not run", "not run"]
    again = Follower()
    whole = reproduce(table, follower=again, out=tmp_path, workers=1, seeds=1)
    assert not set(first.trained) & set(again.trained)
    assert whole.rows[1]["ours"] == part.asked[0]["ours"]


def test_an_interrupted_table_goes_on_where_it_was(tmp_path: Path, table: str) -> None:
    name = run_name(resolve("fed-cdp", TINY)) + "-seed1"
    stopped = interrupt_at(name, 1)
    with pytest.raises(KeyboardInterrupt):
        reproduce(table, follower=stopped, out=tmp_path / "a", workers=1, only=["Fed-CDP"], seeds=1)
    assert "interrupted in " in stopped.words[-1]
    resumed = reproduce(table, follower=Follower(), out=tmp_path / "a", workers=1, only=["Fed-CDP"], seeds=1)
    straight = reproduce(table, follower=Follower(), out=tmp_path / "b", workers=1, only=["Fed-CDP"], seeds=1)
    assert resumed.asked == straight.asked


def test_without_training_only_what_is_finished_is_shown(tmp_path: Path, table: str) -> None:
    reproduce(table, follower=Follower(), out=tmp_path, workers=1, only=["plain"], seeds=1)
    follower = Follower()
    found = reproduce(table, follower=follower, out=tmp_path, workers=1, train=False)
    assert not follower.trained
    assert [row["runs"] for row in found.rows] == [1, 0, 1, 0]
    assert json.loads(json.dumps(found.to_dict()))["failed"] == []


def test_attacks_are_made_once_and_their_pictures_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leak = Leak("fedavg", {"data.name": "cancer"}, View.ON_DEVICE, {"victims": 1, "iterations": 1})
    cells = [Cell("fedavg", "distance", leak, leak_value("rmse"), added=True)]
    cells.append(Cell("fedavg", "succeed", leak, succeeded, added=True))
    whole = REPRODUCTIONS["fed-cdp-figure-4"]
    declaration = replace(whole, cells=lambda scale: cells)
    monkeypatch.setattr(known, "REPRODUCTIONS", {whole.name: declaration})
    heard = Listener()
    first = reproduce(whole.name, follower=heard, out=tmp_path, workers=1)
    assert heard.notes[0].startswith("attack 1/1: cancer-fedavg-on_device-")
    assert first.rows[0]["ours"] > 0
    assert first.rows[1]["words"][0] in "YN"
    assert (first.out / "picture.png").is_file()
    again = Listener()
    assert reproduce(whole.name, follower=again, out=tmp_path, workers=1).rows == first.rows
    assert not again.notes


class Listener(Follower):
    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_run_that_was_made_with_other_settings_is_refused(tmp_path: Path, table: str) -> None:
    reproduce(table, follower=Follower(), out=tmp_path, workers=1, only=["plain"], seeds=1)
    (spec,) = tmp_path.glob("runs/*/spec.toml")
    spec.write_text(spec.read_text(encoding="utf-8").replace("steps = 3", "steps = 4"), encoding="utf-8")
    with pytest.raises(FedveilError, match=r"was made with another local\.steps"):
        reproduce(table, follower=Follower(), out=tmp_path, workers=1, only=["plain"], seeds=1)


def test_an_unknown_cell_is_refused_with_the_names_that_there_are(table: str) -> None:
    plan = make_plan(known.REPRODUCTIONS[table], "small", None)
    assert len(chosen(plan, ["*/accuracy"]).cells) == 3
    with pytest.raises(FedveilError, match=r"only: nowhere: nothing has that name; there are rows plain, Fed-CDP"):
        chosen(plan, ["nowhere"])
