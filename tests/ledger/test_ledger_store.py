"""The ledger forgets nothing, gives back exactly what it was given, and stops the run when it cannot be trusted."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedveil.core.errors import FedveilError
from fedveil.core.types import Charge, Declaration, Receipt, Sampling, Unit
from fedveil.ledger.anchor import anchor_path, write_anchor
from fedveil.ledger.chain import heads_of
from fedveil.ledger.entries import LedgerRound
from fedveil.ledger.ledger_errors import Pin
from fedveil.ledger.store import Ledger
from fedveil.runs.account import account
from fedveil.runs.run import resume, run

SMALL = {"data.name": "cancer", "data.clients": 10, "cohort.size": 4, "local.steps": 4}


def declaration(bound: float = 4.0) -> Declaration:
    return Declaration(
        place="example",
        unit=Unit.RECORD,
        steps=100,
        bound=bound,
        sensitivity=bound * math.sqrt(3),
        sum_std=6 * bound * math.sqrt(5),
        row_std=6 * bound,
        sampling=Sampling("partition", 500, 5, 5, 1),
    )


def charges(round: int, clients: list[int], bound: float = 4.0) -> list[Charge]:
    return [Charge(round, client, declaration(bound)) for client in clients]


def receipts(round: int, clients: list[int], bound: float = 4.0) -> list[Receipt]:
    return [Receipt(round, client, declaration(bound), True, 9814 * 100) for client in clients]


@contextmanager
def begun(path: Path) -> Iterator[Ledger]:
    with Ledger(path) as ledger:
        ledger.begin({})
        yield ledger


def attempts(ledger: Ledger) -> list[tuple[int, int, tuple[int, ...]]]:
    return [(entry.round, entry.attempt, entry.cohort) for entry in ledger.rounds()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def filled(path: Path) -> Path:
    with begun(path) as ledger:
        for round in range(20):
            ledger.charge(round, [1, 5, round + 10], charges(round, [1, 5, round + 10], bound=6 - round / 10))
    return path


def test_charges_come_back_exactly_and_in_order(path: Path) -> None:
    paid = [*charges(0, [3, 1, 2], 4.0), *charges(0, [9], 0.1 + 0.2)]
    with begun(path) as ledger:
        ledger.charge(0, [3, 1, 2, 9], paid)
        assert ledger.charges() == paid
    with begun(path) as reopened:
        assert reopened.charges() == paid
        assert reopened.charges()[0].declared.unit is Unit.RECORD
        assert reopened.rounds() == [LedgerRound(0, 0, (3, 1, 2, 9), tuple(paid))]
        assert reopened.receipts() == []


FLOATS = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
COUNTS = st.integers(0, 2**53)


@settings(max_examples=20)
@given(
    made=st.lists(
        st.builds(
            Charge,
            round=st.just(7),
            client=st.integers(0, 2**31),
            declared=st.builds(
                Declaration,
                place=st.text(max_size=10),
                unit=st.sampled_from(Unit),
                steps=COUNTS,
                bound=FLOATS,
                sensitivity=FLOATS,
                sum_std=FLOATS,
                row_std=FLOATS,
                sampling=st.builds(
                    Sampling, kind=st.text(max_size=9), records=COUNTS, batch=COUNTS, cap=COUNTS, uses=COUNTS
                ),
            ),
        ),
        max_size=3,
    )
)
def test_any_charges_come_back_exactly(made: list[Charge]) -> None:
    with TemporaryDirectory() as folder, begun(Path(folder) / "ledger.sqlite") as ledger:
        ledger.charge(7, [charge.client for charge in made], made)
        assert ledger.charges() == made


def test_a_round_that_is_repeated_is_a_new_attempt_and_the_old_one_stays(path: Path) -> None:
    first, second = charges(3, [1, 2]), charges(3, [1, 2], bound=5.0)
    with begun(path) as ledger:
        ledger.charge(3, [1, 2], first)
    with begun(path) as ledger:
        ledger.charge(3, [1, 2], second)
        ledger.charge(4, [2], charges(4, [2]))
        ledger.charge(3, [1, 2], first)
        assert attempts(ledger) == [(3, 0, (1, 2)), (3, 1, (1, 2)), (4, 0, (2,)), (3, 2, (1, 2))]
        assert ledger.charges() == [*first, *second, *charges(4, [2]), *first]


def test_rounds_are_only_ever_added(filled: Path) -> None:
    with begun(filled) as ledger:
        before_rounds, before = ledger.rounds(), ledger.charges()
        ledger.charge(20, [1], charges(20, [1]))
        assert ledger.rounds()[:-1] == before_rounds
        assert ledger.charges()[:-1] == before


def test_a_round_without_clients_or_without_noise_is_on_record_too(path: Path) -> None:
    with begun(path) as ledger:
        ledger.charge(0, [], [])
        ledger.charge(1, [4], [])
        assert attempts(ledger) == [(0, 0, ()), (1, 0, (4,))]
        assert ledger.charges() == []


def test_a_declaration_that_many_charges_and_receipts_share_is_stored_once(path: Path) -> None:
    many = list(range(50))
    for round in (0, 1):
        with begun(path) as ledger:  # also where the ledger is opened again
            ledger.charge(round, many, charges(round, many))
            ledger.execute(round, receipts(round, many))
    with begun(path) as ledger:
        ledger.charge(2, many, charges(2, many, bound=5.0))
        assert ledger.charges() == [c for r, bound in ((0, 4.0), (1, 4.0), (2, 5.0)) for c in charges(r, many, bound)]
    database = sqlite3.connect(path)
    entries = [entry for (entry,) in database.execute("SELECT entry FROM entries ORDER BY id")]
    database.close()
    assert [entry.count("sum_std") for entry in entries] == [0, 1, 0, 0, 0, 1]


def test_what_was_committed_is_on_disk_before_the_ledger_is_closed(path: Path, tmp_path: Path) -> None:
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    with begun(path) as ledger:
        ledger.charge(0, [1, 2], charges(0, [1, 2]))
        for file in tmp_path.glob("ledger.*"):  # what a crash at this moment would leave behind
            shutil.copy(file, crashed)
    with Ledger(crashed / "ledger.sqlite") as ledger:
        assert attempts(ledger) == [(0, 0, (1, 2))]
        assert ledger.charges() == charges(0, [1, 2])


def test_a_commit_that_fails_halfway_leaves_nothing_of_itself(path: Path) -> None:
    with begun(path) as ledger:
        ledger.charge(0, [1], charges(0, [1]))
        (pages,) = ledger._connection.execute("PRAGMA page_count").fetchone()
        ledger._connection.execute(f"PRAGMA max_page_count = {pages}")  # the disk is full
        many = list(range(2000))
        with pytest.raises(FedveilError, match="full"):
            ledger.charge(1, many, charges(1, many))
        ledger._connection.execute("PRAGMA max_page_count = 1000000")
        assert attempts(ledger) == [(0, 0, (1,))]
        assert ledger.charges() == charges(0, [1])
        ledger.charge(1, [1], charges(1, [1]))
        assert attempts(ledger)[-1] == (1, 0, (1,))


def test_every_commit_is_synced_to_the_disk(path: Path) -> None:
    with begun(path) as ledger:
        assert ledger._connection.execute("PRAGMA synchronous").fetchone()[0] >= 2
        assert ledger._connection.execute("PRAGMA locking_mode").fetchone() == ("exclusive",)


def refusal(path: Path) -> str:
    with pytest.raises(FedveilError) as caught, Ledger(path):
        pass
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_ledger_in_use_by_another_process_is_refused(path: Path) -> None:
    script = (
        "import sqlite3, sys\n"
        "database = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "database.execute('BEGIN EXCLUSIVE')\n"
        "print('held', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert "another process is working on this run" in refusal(path)
        other.communicate("\n")
    with begun(path) as ledger:
        assert attempts(ledger) == []


def test_no_other_process_can_even_read_a_ledger_that_is_held(path: Path) -> None:
    script = "import sqlite3, sys\nsqlite3.connect(sys.argv[1], timeout=0).execute('SELECT * FROM entries')\n"
    with begun(path) as ledger:
        ledger.charge(0, [1], [])
        held = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
        assert "database is locked" in held.stderr
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode == 0


def test_a_ledger_that_is_open_twice_in_one_process_is_refused(path: Path) -> None:
    with Ledger(path):
        assert "another process is working on this run" in refusal(path)


def test_a_file_that_is_no_ledger_is_refused(path: Path) -> None:
    path.write_bytes(b"not a ledger at all" * 100)
    assert "the run can't go on" in refusal(path)
    assert path.read_bytes() == b"not a ledger at all" * 100


@pytest.mark.parametrize("keep", [50, 4096, 5000, -4096])
def test_a_truncated_ledger_is_refused(filled: Path, keep: int) -> None:
    content = filled.read_bytes()
    assert len(content) > 3 * 4096
    filled.write_bytes(content[:keep])
    assert "the run can't go on" in refusal(filled)


def test_a_ledger_with_an_overwritten_page_is_refused(filled: Path) -> None:
    content = bytearray(filled.read_bytes())
    content[4096 : 2 * 4096] = b"\xff" * 4096
    filled.write_bytes(content)
    assert "the run can't go on" in refusal(filled)


def test_a_directory_or_a_missing_directory_is_refused(tmp_path: Path) -> None:
    assert "the run can't go on" in refusal(tmp_path)
    assert "the run can't go on" in refusal(tmp_path / "nowhere" / "ledger.sqlite")


def as_if_written(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change the second entry, and all that hangs on it, as whoever wrote the ledger could have."""
    database = sqlite3.connect(path)
    with database:
        entries = [entry for (entry,) in database.execute("SELECT entry FROM entries ORDER BY id")]
        entries[1] = json.dumps(change(json.loads(entries[1])))
        rows = list(zip(entries, heads_of(entries), range(1, len(entries) + 1), strict=True))
        database.executemany("UPDATE entries SET entry = ?, head = ? WHERE id = ?", rows)
    database.close()
    write_anchor(path, len(rows), rows[-1][1], None)


# Damage


@pytest.mark.parametrize("keep", [1, -1, -20])
def test_a_ledger_that_lost_a_few_bytes_is_refused(filled: Path, keep: int) -> None:
    filled.write_bytes(filled.read_bytes()[:keep])
    assert "the run can't go on" in refusal(filled)


def test_a_ledger_that_was_refused_can_be_mended_and_opened(filled: Path) -> None:
    content = filled.read_bytes()
    filled.write_bytes(content[:-4000])
    with pytest.raises(FedveilError):
        Ledger(filled)
    filled.write_bytes(content)
    with begun(filled) as ledger:
        assert len(ledger.rounds()) == 20


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        json.dumps({"unit": "person", "sampling": {}}),
        json.dumps({"unit": "record", "sampling": {"x": 1}}),
    ],
)
def test_a_declaration_that_cannot_be_read_stops_the_run(filled: Path, text: str) -> None:
    as_if_written(filled, lambda entry: entry | {"declarations": [json.loads(text)]})
    assert "the run can't go on" in refusal(filled)


def test_a_cohort_that_cannot_be_read_stops_the_run(filled: Path) -> None:
    as_if_written(filled, lambda entry: entry | {"cohort": [1, "2"]})
    assert "the run can't go on" in refusal(filled)


@pytest.mark.parametrize("damage", ["emptied", "deleted", "of another run"])
def test_a_run_whose_ledger_lost_its_rounds_neither_goes_on_nor_is_accounted(damage: str, tmp_path: Path) -> None:
    run("fed-cdp", SMALL, rounds=2, out=tmp_path / "run", workers=1)
    (tmp_path / "run/result.json").unlink()
    ledger = tmp_path / "run/ledger.sqlite"
    ledger.unlink()
    if damage == "emptied":
        ledger.touch()
    elif damage == "of another run":
        anchor_path(ledger).unlink()
        with begun(ledger) as other:
            other.charge(0, [1], [])
    for again in (account, partial(resume, workers=1)):
        with pytest.raises(FedveilError, match="ledger"):
            again(tmp_path / "run")


def test_a_ledger_covers_the_rounds_it_holds_and_not_one_more(path: Path) -> None:
    with begun(path) as ledger:
        for round in range(3):
            ledger.charge(round, [1], charges(round, [1]))
        ledger.check_covers(3)
        with pytest.raises(FedveilError, match="lacks 1 of the 4 published rounds"):
            ledger.check_covers(4)


def test_charges_of_another_round_are_refused(path: Path) -> None:
    with begun(path) as ledger, pytest.raises(FedveilError):
        ledger.charge(1, [1], charges(0, [1]))


def test_a_ledger_is_held_to_the_spec_of_its_first_opening(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.begin({Pin.SPEC: "sigma = 6.0"})
        ledger.charge(0, [1], charges(0, [1]))
    with Ledger(path) as ledger:
        ledger.begin({Pin.SPEC: "sigma = 6.0"})
        with pytest.raises(FedveilError, match="the spec was changed after the run began"):
            ledger.begin({Pin.SPEC: "sigma = 60.0"})
        with pytest.raises(FedveilError, match="no digest of the context"):
            ledger.begin({Pin.CONTEXT: "said too late"})
        assert ledger.check(Pin.SPEC, "sigma = 6.0")
        assert not ledger.check(Pin.CONTEXT, "anything")  # nothing was said of them,
        assert not ledger.check(Pin.CONTEXT, "something else")  # and asking does not say it


def test_a_changed_spec_is_neither_resumed_nor_accounted(tmp_path: Path) -> None:
    run("fed-cdp", SMALL, rounds=2, out=tmp_path / "run", workers=1)
    before = account(tmp_path / "run").spent
    assert before is not None
    spec = tmp_path / "run/spec.toml"
    written = spec.read_text()
    spec.write_text(written.replace("sigma = 6.0", "sigma = 60.0"))
    assert spec.read_text() != written
    (tmp_path / "run/result.json").unlink()
    for again in (account, partial(resume, workers=1)):
        with pytest.raises(FedveilError, match="the spec was changed after the run began"):
            again(tmp_path / "run")
    spec.write_text(written)
    assert account(tmp_path / "run").spent == before
    assert resume(tmp_path / "run", workers=1).rounds == 2


def test_equal_declarations_come_back_as_one_object(filled: Path) -> None:
    """A table compares thousands of them."""
    with begun(filled) as ledger:
        found = [charge.declared for charge in ledger.charges()]
    assert len({id(did) for did in found}) == len(set(found)) == 20


def test_what_was_executed_stands_beside_what_was_charged(path: Path) -> None:
    (example,) = receipts(0, [1])
    at_server = replace(example, did=replace(example.did, place="server"))
    with begun(path) as ledger:
        ledger.charge(0, [1], [example.charge, at_server.charge])
        # the bound of the second was not known when the round was paid for
        ran = [replace(at_server, did=replace(at_server.did, bound=0.3), draws=7), replace(example, draws=5)]
        ledger.execute(0, ran)
        ledger.charge(1, [1], [replace(example, round=1).charge])
        assert ledger.charges()[:2] == [example.charge, at_server.charge]
        assert ledger.receipts() == ran
        assert [(entry.round, entry.executed) for entry in ledger.rounds()] == [(0, True), (1, False)]


@pytest.mark.parametrize("surplus", [True, False])
def test_a_round_that_did_something_else_than_it_was_charged_for_is_refused(path: Path, surplus: bool) -> None:
    with begun(path) as ledger:
        ledger.charge(0, [1, 2], charges(0, [1, 2]))
        with pytest.raises(FedveilError, match="something else than it was charged for"):
            ledger.execute(0, receipts(0, [1, 2, 3] if surplus else [1]))
        assert ledger.receipts() == []
        assert not ledger.rounds()[0].executed


def test_receipts_are_those_of_the_last_attempt(path: Path) -> None:
    with begun(path) as ledger:
        for bound in (4.0, 5.0):
            ledger.charge(0, [1], charges(0, [1], bound))
            ledger.execute(0, receipts(0, [1], bound))
        assert ledger.receipts() == receipts(0, [1], 5.0)
        assert len(ledger.charges()) == 2


FIRST_FORMAT = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE rounds (id INTEGER PRIMARY KEY, round INTEGER NOT NULL, attempt INTEGER NOT NULL, cohort TEXT NOT NULL,
    committed TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE (round, attempt));
CREATE TABLE declarations (id INTEGER PRIMARY KEY, declaration TEXT NOT NULL UNIQUE);
CREATE TABLE receipts (round_id INTEGER NOT NULL, client INTEGER NOT NULL, declaration_id INTEGER NOT NULL,
    confirmed INTEGER NOT NULL, draws INTEGER NOT NULL);
"""


def test_a_ledger_of_the_first_format_is_read_and_not_added_to(path: Path) -> None:
    database = sqlite3.connect(path)
    with database:
        database.executescript(FIRST_FORMAT)
        for round in range(2):
            database.execute("INSERT INTO rounds (round, attempt, cohort) VALUES (?, 0, '[1, 2]')", (round,))
        text = json.dumps(asdict(declaration()), sort_keys=True)
        database.execute("INSERT INTO declarations (declaration) VALUES (?)", (text,))
        rows = [(1, 1, 1, 1, 9), (1, 2, 1, 1, 9), (2, 1, 1, 0, 0), (2, 2, 1, 0, 0)]  # the second was never confirmed
        database.executemany("INSERT INTO receipts VALUES (?, ?, ?, ?, ?)", rows)
    database.close()
    before = path.read_bytes()
    with Ledger(path) as ledger:
        assert not ledger.chained
        clean = replace(declaration(), row_std=0.0)  # rows that it declares noisy were not
        assert ledger.charges() == [Charge(round, client, clean) for round in (0, 1) for client in (1, 2)]
        assert {receipt.did for receipt in ledger.receipts()} == {clean}
        assert [(r.round, r.client, r.draws) for r in ledger.receipts()] == [(0, 1, 9), (0, 2, 9)]
        assert [(entry.round, entry.executed) for entry in ledger.rounds()] == [(0, True), (1, False)]
        with pytest.raises(FedveilError, match="an older format; this version reads it and adds nothing"):
            ledger.charge(2, [1], charges(2, [1]))
    assert path.read_bytes() == before
