"""What the pages of reproductions say, and what the calibrated rows are held to."""

from __future__ import annotations

import json
import platform
import shutil
from pathlib import Path

import pytest
from series_follower import Follower

from fedveil.config.spec import resolve
from fedveil.core.cores import usable_cores
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Relation
from fedveil.papers import catalogue as known
from fedveil.papers.catalogue import REPRODUCTIONS
from fedveil.papers.fed_cdp import BETTER, DATA, VERIFIED
from fedveil.papers.printed_tables import Printed, printed_tables
from fedveil.papers.reproduce import reproduce
from fedveil.papers.reproduction import RECORD, Cell, Reproduction, Scale, Setting, Stated, Training
from fedveil.papers.values import final_accuracy, verified_epsilon
from fedveil.parts.batches import FullBatch, PoissonBatch

COPIED = {"data.name": "cancer", "local.steps": 2, "stop.rounds": 2, "cohort.size": 2, "data.clients": 4}
COPIED |= {"data.records": 200}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> str:
    """A small table of a paper that nobody wrote, whose clients hold copies of the same records."""
    rows = {"Fed-CDP": (0.5, 2.0), "other": (0.4, 3.0)}
    printed = Printed("tiny-table", "Nobody 2000", "Table 0", "Nothing", "", ("accuracy", "ε"), rows)
    cells = [
        Cell(row, column, work, read, RECORD)
        for row, source in (("Fed-CDP", "fed-cdp"), ("other", "fed-cdp-decay"))
        for column, work, read in (
            ("accuracy", Training(source, COPIED), final_accuracy),
            ("ε", Setting(source, COPIED), verified_epsilon(*RECORD)),
        )
    ]
    words = {"small": "tiny", "paper": "tiny"}
    declaration = Reproduction(name="tiny-table", title="A tiny table", cells=lambda scale: cells, scales=words)
    monkeypatch.setattr(
        "fedveil.papers.reproduction.printed_tables", lambda: {**printed_tables(), "tiny-table": printed}
    )
    monkeypatch.setattr(known, "REPRODUCTIONS", {"tiny-table": declaration})
    return "tiny-table"


def test_a_cell_in_which_some_seeds_gave_no_number_tells_the_numbers_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Training("fedavg", {"data.name": "cancer", "stop.rounds": 1})
    numbers = {"1": 0.75, "2": "diverged", "3": 0.25}
    cell = Cell("row", "column", work, lambda done, prepared: numbers[done.name[-1]], digits=2)
    found = mixed(monkeypatch, cell)
    (row,) = reproduce(found, follower=Follower(), out=tmp_path, workers=1, seeds=3).rows
    assert row["ours"] is None
    assert row["words"] == "1 of 3 seeds: diverged; the others: 0.75, 0.25"


def mixed(monkeypatch: pytest.MonkeyPatch, *cells: Cell) -> str:
    """A reproduction of these cells alone."""
    printed = Printed("mixed", "Nobody 2000", "Table 0", "Nothing", "", ("column",), {"row": (0.5,)})
    declaration = Reproduction(
        name="mixed", title="Mixed", cells=lambda scale: cells, scales={"small": "", "paper": ""}
    )
    monkeypatch.setattr("fedveil.papers.reproduction.printed_tables", lambda: {"mixed": printed})
    monkeypatch.setattr(known, "REPRODUCTIONS", {"mixed": declaration})
    return "mixed"


def test_relation_and_copies_are_told_of_runs_and_of_settings(tmp_path: Path, table: str) -> None:
    found = reproduce(table, follower=Follower(), out=tmp_path, workers=1, only=["Fed-CDP"])
    for row in found.asked:
        assert row["relation"] == str(Relation.ADD_OR_REMOVE)
        assert row["copies"] > 1
        assert float(row["together"]) > 1.05 * row["promised"]
    text = (found.out / "table.md").read_text(encoding="utf-8")
    assert "| record × server, add-or-remove |" in text
    told = found.asked[0]
    assert (
        f"- records are copied: here up to {told['copies']} clients hold the same record; a record's ε speaks of one"
        f" client's copy, and for all copies together what is promised is ε = {told['together']}\n"
    ) in text


def test_a_page_of_a_part_shows_that_part_names_the_rest_and_the_command_that_makes_it(
    tmp_path: Path, table: str
) -> None:
    page = tmp_path / "part.md"
    options = {"follower": Follower(), "out": tmp_path, "workers": 1, "only": ["fed-cdp/*", "*/ε"], "seeds": 1}
    reproduce(table, **options, train=False, page=page)
    text = page.read_text(encoding="utf-8")
    assert "fedveil reproduce tiny-table --scale small --only 'fed-cdp/*' --only '*/ε' --seeds 1\n" in text
    assert "|  | accuracy | ε |" in text
    page = tmp_path / "less.md"
    reproduce(table, **options | {"only": ["other/ε"], "seeds": None}, train=False, page=page)
    text = page.read_text(encoding="utf-8")
    assert "fedveil reproduce tiny-table --scale small --only 'other/ε'\n" in text
    assert "|  | ε |" in text
    assert "Fed-CDP |" not in text
    assert "| other | ε |" in text  # the guarantee names its column: the other one has not run
    assert "- columns not run, and left out: accuracy\n- rows not run, and left out: Fed-CDP\n" in text
    assert "was run before" not in text


def test_what_was_run_before_is_shown_and_said_to_be_so(tmp_path: Path, table: str) -> None:
    reproduce(table, follower=Follower(), out=tmp_path, workers=1, only=["other/accuracy"])
    found = reproduce(table, follower=Follower(), out=tmp_path, workers=1, only=["Fed-CDP/ε"])
    assert "what --only does not name is shown as far as it was run before" in found.notes
    assert "| other | 0." in (found.out / "table.md").read_text(encoding="utf-8")


def test_a_page_names_the_machines_of_its_runs_also_of_runs_brought_from_elsewhere(tmp_path: Path, table: str) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    options = {"follower": Follower(), "workers": 1, "seeds": 1, "only": ["*/accuracy"]}
    reproduce(table, **options | {"only": ["Fed-CDP/accuracy"]}, out=first)
    (mine,) = (first / "runs").iterdir()
    about = json.loads((mine / "run.json").read_text(encoding="utf-8"))
    assert about["machine"] == f"{usable_cores()} cores ({platform.machine()})"
    brought = second / "runs" / mine.name
    brought.mkdir(parents=True)
    for name in ("spec.toml", "events.jsonl", "result.json"):  # what a finished run is read from, beside run.json
        shutil.copy(mine / name, brought / name)
    elsewhere = about | {"machine": "0 cores (abacus)", "created": "2001-02-03T04:05:06+00:00"}
    (brought / "run.json").write_text(json.dumps(elsewhere), encoding="utf-8")
    found = reproduce(table, **options, out=second)
    versions = f"Python {about['python']}, PyTorch {about['torch']}, fedveil {about['fedveil']}"
    assert found.asked[0]["made"] == [f"0 cores (abacus), {versions}, 2001-02-03"]
    (trained,) = found.asked[1]["made"]
    assert trained.startswith(f"{about['machine']}, {versions}, 20")
    text = (found.out / "table.md").read_text(encoding="utf-8")
    assert f"\nMade on 0 cores (abacus), {versions}, 2001-02-03; {trained}.\n" in text
    assert "| Fed-CDP | 0." in text


@pytest.mark.parametrize("train", [True, False])
def test_a_run_that_can_not_be_read_is_said_and_the_rest_is_shown(tmp_path: Path, table: str, train: bool) -> None:
    options = {"workers": 1, "seeds": 1, "out": tmp_path}
    reproduce(table, follower=Follower(), **options)
    damaged = next(path for path in (tmp_path / "runs").iterdir() if "decay" in path.name)
    (damaged / "result.json").write_text("{", encoding="utf-8")
    follower = Follower()
    found = reproduce(table, follower=follower, train=train, **options)
    told = {(row["row"], row["column"]): row for row in found.rows}
    assert isinstance(told["Fed-CDP", "accuracy"]["ours"], float)
    assert told["other", "accuracy"]["ours"] is None
    assert any("result.json: can't be read" in words for words in (found.failed if train else follower.notes))


@pytest.mark.parametrize("page", [".", "picture.png", "page", "folder.md", "file/page.md", ".md"])
def test_a_page_that_could_not_be_written_is_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, page: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.md").mkdir()
    Path("file").touch()
    with pytest.raises(FedveilError, match=r"^page: .*(ends in|end in|not a directory)"):
        reproduce(table, follower=Follower(), out="r", workers=1, page=page)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.md"]


# The calibrated rows of Fed-CDP


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_calibrated_for_the_verified_epsilon_means_that_of_the_cell_beside_it(scale: Scale) -> None:
    cells = REPRODUCTIONS["fed-cdp-table-2"].cells(scale)
    stated = {cell.column: cell.work for cell in cells if cell.row == "Fed-CDP"}
    mine = {cell.column: cell.work for cell in cells if cell.row == VERIFIED}
    assert set(mine) == set(stated)
    for column, work in mine.items():
        assert isinstance(work, Training)
        assert isinstance(work.budget, Stated)
        assert resolve("fed-cdp", work.budget.overrides) == resolve("fed-cdp", stated[column].overrides)


@pytest.mark.parametrize("scale", ["small", "paper"])
@pytest.mark.parametrize(("table", "column"), [("fed-cdp-table-4", "C=4"), ("fed-cdp-table-5", "σ=6")])
def test_in_sweeps_it_means_that_of_the_stated_clip_and_noise(table: str, column: str, scale: Scale) -> None:
    cells = {(cell.row, cell.column): cell.work for cell in REPRODUCTIONS[table].cells(scale)}
    for row in DATA:
        work = cells[row, VERIFIED]
        assert isinstance(work, Training)
        assert isinstance(work.budget, Stated)
        assert resolve("fed-cdp", work.budget.overrides) == resolve("fed-cdp", cells[row, column].overrides)


def test_the_remark_on_the_calibrated_method_says_what_its_preset_is() -> None:
    for data in DATA.values():
        plain, mine = (resolve(name, {"data.name": data}) for name in ("fed-cdp", "fed-cdp-calibrated"))
        on_digits = data == "mnist"
        assert mine.method.local.steps == 1
        assert isinstance(mine.method.batch, FullBatch if on_digits else PoissonBatch)
        assert (mine.model.name == "scattering") is on_digits
        assert (mine.model == plain.model) is not on_digits
    for words in (
        "On MNIST the step takes all records",
        "linear model on fixed scattering features",
        "Poisson samples",
    ):
        assert words in BETTER


def test_group_privacy_is_not_called_vacuous_where_numbers_are_shown() -> None:
    (remark,) = [words for words in REPRODUCTIONS["fed-cdp-table-6"].remarks if "group privacy" in words]
    assert "large or vacuous" in remark
