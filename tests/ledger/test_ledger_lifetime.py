"""A site's ledger: what was charged and answered, for ever, and nothing that can be bent."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from fedveil.core.errors import FedveilError
from fedveil.core.types import Declaration, Sampling, Unit
from fedveil.ledger import chained_file
from fedveil.ledger.chain import next_head
from fedveil.ledger.ledger_errors import LedgerUnusable
from fedveil.ledger.lifetime import LifetimeLedger

PINS = {"name": "north", "schema": "s", "records": "r"}
DECLARED = (Declaration("example", Unit.RECORD, 2, 1.0, 1.0, 4.0, 0.0, Sampling("poisson", 60, 10, 40, 2)),)
KEY = bytes(32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with one answered and one open charge."""
    path = tmp_path / "ledger.sqlite"
    with LifetimeLedger(path) as ledger:
        ledger.begin(PINS)
        ledger.approve("plan", "study")
        ledger.answered(ledger.charge("plan", "q0", 0, DECLARED), "digest", 10)
        ledger.charge("plan", "q1", 1, DECLARED)
    return path


def test_what_was_written_is_read_back(path: Path) -> None:
    with LifetimeLedger(path) as ledger:
        assert ledger.approved == {"plan": "study"}
        assert [(p.number, p.plan, p.question, p.round, p.declared, p.answer) for p in ledger.paid] == [
            (0, "plan", "q0", 0, DECLARED, "digest"),
            (1, "plan", "q1", 1, DECLARED, None),
        ]
        assert ledger.latest("q1") == ledger.paid[1]
        assert ledger.latest("q2") is None


def test_a_question_may_be_charged_again_and_the_last_charge_counts(path: Path) -> None:
    with LifetimeLedger(path) as ledger:
        again = ledger.charge("plan", "q0", 0, DECLARED)
        assert (again.number, ledger.latest("q0")) == (2, again)
        assert ledger.paid[0].answer == "digest"


def test_an_answer_is_written_once(path: Path) -> None:
    with LifetimeLedger(path) as ledger, pytest.raises(FedveilError, match="answered before"):
        ledger.answered(ledger.paid[0], "other", 10)


def test_nothing_is_charged_for_a_plan_that_was_not_agreed_to(path: Path) -> None:
    with LifetimeLedger(path) as ledger, pytest.raises(FedveilError, match="not approved"):
        ledger.charge("other", "q", 0, DECLARED)


@pytest.mark.parametrize("pin", PINS)
def test_other_records_another_schema_or_name_are_noticed(path: Path, pin: str) -> None:
    with LifetimeLedger(path) as ledger, pytest.raises(FedveilError, match=f"the {pin} changed"):
        ledger.begin({**PINS, pin: "another"})


def test_a_ledger_that_was_not_begun_takes_nothing(tmp_path: Path) -> None:
    with LifetimeLedger(tmp_path / "ledger.sqlite") as ledger, pytest.raises(FedveilError, match="not begun"):
        ledger.approve("plan", "study")


def test_a_changed_charge_is_noticed(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("UPDATE entries SET entry = replace(entry, '4.0', '9.0') WHERE id = 3")
    database.close()
    with pytest.raises(LedgerUnusable, match="entry 3"):
        LifetimeLedger(path)


def test_a_charge_that_was_cut_off_is_noticed(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM entries WHERE id = 5")
    database.close()
    with pytest.raises(LedgerUnusable, match="cut off"):
        LifetimeLedger(path)


@pytest.mark.parametrize(
    "entry", ['{"kind": "answer", "number": 0, "digest": "x"}', '{"kind": "answer", "number": 7, "digest": "x"}', "{}"]
)
def test_an_entry_that_cannot_be_the_next_makes_the_ledger_unusable(path: Path, entry: str) -> None:
    with sqlite3.connect(path) as database:
        ((head,),) = database.execute("SELECT head FROM entries WHERE id = 5").fetchall()
        database.execute("INSERT INTO entries VALUES (6, ?, ?)", (entry, next_head(head, entry)))
    database.close()
    with pytest.raises(LedgerUnusable, match="can't be read"):
        LifetimeLedger(path)


def test_a_charge_is_known_even_if_the_anchor_could_not_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise FedveilError("the disk is full")

    with LifetimeLedger(path) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(chained_file, "write_anchor", full)
            with pytest.raises(FedveilError, match="full"):
                ledger.charge("plan", "q2", 2, DECLARED)
        assert len(ledger.paid) == 3
        ledger.charge("plan", "q3", 3, DECLARED)
    with LifetimeLedger(path) as ledger:
        assert [paid.question for paid in ledger.paid] == ["q0", "q1", "q2", "q3"]


def test_a_mark_stands_for_a_moment_of_this_ledger(path: Path) -> None:
    with LifetimeLedger(path) as ledger:
        mark = ledger.mark(KEY)
        ledger.charge("plan", "q2", 2, DECLARED)
        assert ledger.keeps(KEY, mark)
        assert ledger.keeps(KEY, ledger.mark(KEY))
        assert not ledger.keeps(bytes(31) + b"x", mark)
        assert not ledger.keeps(KEY, "0" * 64)


def test_the_mark_of_an_answer_stands_for_the_answer_too(path: Path) -> None:
    with LifetimeLedger(path) as ledger:
        paid = ledger.charge("plan", "q2", 2, DECLARED)
        mark = ledger.mark(KEY, giving=paid.number)
        assert not ledger.keeps(KEY, mark)
        ledger.answered(paid, "digest", 10)
        assert ledger.keeps(KEY, mark)
        assert not ledger.keeps(KEY, ledger.mark(KEY, giving=paid.number + 1))
