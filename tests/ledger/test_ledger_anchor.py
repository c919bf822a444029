"""A ledger that was changed, cut, reordered or replaced is noticed, also where it is right by itself."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.types import Charge, Declaration, Receipt, Sampling, Unit
from fedveil.ledger import chained_file
from fedveil.ledger.anchor import KEY_VARIABLE, Anchor, Seal, anchor_path, read_anchor, user_key, write_anchor
from fedveil.ledger.chain import GENESIS, heads_of
from fedveil.ledger.entries import begin_entry
from fedveil.ledger.ledger_errors import LedgerUnusable, Pin
from fedveil.ledger.store import Ledger

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
NOISE = Declaration("example", Unit.RECORD, 3, 1.0, 1.0, 6.0, 0.0, Sampling("partition", 30, 5, 5, 1))


def add_round(ledger: Ledger, round: int) -> None:
    ledger.charge(round, [1, 2], [Charge(round, client, NOISE) for client in (1, 2)])
    ledger.execute(round, [Receipt(round, client, NOISE, True, 99) for client in (1, 2)])


def fill(path: Path, rounds: int = 3, key: bytes | None = None) -> None:
    """Seven entries: the beginning, and two for each round."""
    with Ledger(path, key=key) as ledger:
        ledger.begin({Pin.SPEC: "sigma = 6.0"})
        for round in range(rounds):
            add_round(ledger, round)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    fill(tmp_path / "ledger.sqlite")
    return tmp_path / "ledger.sqlite"


def problem(path: Path, key: bytes | None = None) -> str:
    with pytest.raises(LedgerUnusable) as caught, Ledger(path, key=key):
        pass
    assert str(caught.value).startswith(f"{path}: ")
    return caught.value.problem


def edit(path: Path, *statements: str) -> None:
    database = sqlite3.connect(path)
    with database:
        for statement in statements:
            database.execute(statement)
    database.close()


# What an anchor says


def test_the_anchor_has_length_and_head_and_is_its_owners_alone(path: Path) -> None:
    database = sqlite3.connect(path)
    rows = database.execute("SELECT entry, head FROM entries ORDER BY id").fetchall()
    database.close()
    assert [head for _, head in rows] == heads_of(entry for entry, _ in rows)
    assert read_anchor(path) == Anchor(7, rows[-1][1], None)
    assert stat.S_IMODE(anchor_path(path).stat().st_mode) == 0o600
    with Ledger(path) as ledger:
        assert ledger.head == rows[-1][1]
        assert (ledger.summary.entries, ledger.summary.head, ledger.summary.seal) == (7, ledger.head, Seal.NONE)


def test_two_ledgers_of_the_same_run_have_different_heads(tmp_path: Path) -> None:
    """Else whoever knows a head could find out by trying what the ledger holds."""
    heads = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        fill(tmp_path / name / "ledger.sqlite", rounds=0)
        heads.append(read_anchor(tmp_path / name / "ledger.sqlite").head)
    assert heads[0] != heads[1]


# Edits of the ledger


EDITS = {
    "all entries removed": ["DELETE FROM entries"],
    "what was executed removed": ["DELETE FROM entries WHERE json_extract(entry, '$.kind') = 'execute'"],
    "what was charged removed": ["DELETE FROM entries WHERE json_extract(entry, '$.kind') = 'charge'"],
    "the last entry removed": ["DELETE FROM entries WHERE id = 7"],
    "the last round removed": ["DELETE FROM entries WHERE id >= 6"],
    "the first entry removed": ["DELETE FROM entries WHERE id = 1"],
    "one removed and the rest moved up": [
        "DELETE FROM entries WHERE id = 4",
        "UPDATE entries SET id = id - 1 WHERE id > 4",
    ],
    "two swapped": [
        "UPDATE entries SET id = 99 WHERE id = 2",
        "UPDATE entries SET id = 2 WHERE id = 4",
        "UPDATE entries SET id = 4 WHERE id = 99",
    ],
    "one repeated": ["INSERT INTO entries SELECT 8, entry, head FROM entries WHERE id = 6"],
    "more noise": ["UPDATE entries SET entry = replace(entry, '\"sum_std\": 6.0', '\"sum_std\": 8.0') WHERE id = 2"],
    "a client less": ["UPDATE entries SET entry = replace(entry, '[1, 2]', '[1]') WHERE id = 4"],
    "another head": ["UPDATE entries SET head = (SELECT head FROM entries WHERE id = 1) WHERE id = 3"],
    "no table": ["DROP TABLE entries"],
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_ledger_is_refused_and_left_as_it_is(name: str, path: Path) -> None:
    edit(path, *EDITS[name])
    before = path.read_bytes()
    assert "ledger" in problem(path)
    assert path.read_bytes() == before


def rewrite(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    """Change the entries and make the whole chain anew, as somebody does who knows how it is made."""
    database = sqlite3.connect(path)
    with database:
        entries = change([entry for (entry,) in database.execute("SELECT entry FROM entries ORDER BY id")])
        database.execute("DELETE FROM entries")
        rows = [(n, *row) for n, row in enumerate(zip(entries, heads_of(entries), strict=True), 1)]
        database.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
    database.close()


def with_more_noise(entries: list[str]) -> list[str]:
    return [entry.replace('"sum_std": 6.0', '"sum_std": 8.0') for entry in entries]


CHAINED_ANEW: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "with more noise": (with_more_noise, "ledger.head is of another ledger"),
    "without the last entry": (lambda entries: entries[:-1], "6 of the 7 entries"),
    "with only its beginning": (lambda entries: entries[:1], "1 of the 7 entries"),
    "with another beginning": (lambda entries: [begin_entry({}), *entries[1:]], "ledger.head is of another ledger"),
    "in another order": (lambda entries: [entries[0], *entries[3:], *entries[1:3]], "declaration 0 is missing"),
}


@pytest.mark.parametrize("name", CHAINED_ANEW)
def test_a_ledger_that_is_chained_anew_does_not_fit_its_anchor(name: str, path: Path) -> None:
    change, words = CHAINED_ANEW[name]
    rewrite(path, change)
    assert words in problem(path)


@pytest.mark.parametrize("entry", ['{"kind": "gift"}', "{}", "[]", "no JSON", '{"kind": "begin", "pins": {}}'])
def test_an_entry_that_cannot_be_the_next_one_is_refused_although_it_is_chained(path: Path, entry: str) -> None:
    rewrite(path, lambda entries: [*entries, entry])
    assert "can't be read" in problem(path)


@pytest.mark.parametrize("lost", [2, 3, 4])
def test_entries_that_refer_to_a_missing_one_are_refused_although_they_are_chained(path: Path, lost: int) -> None:
    rewrite(path, lambda entries: [*entries[: lost - 1], *entries[lost:]])
    anchor_path(path).unlink()
    database = sqlite3.connect(path)
    (head,) = database.execute("SELECT head FROM entries WHERE id = 6").fetchone()
    database.close()
    write_anchor(path, 6, head, None)
    if lost == 3:  # what an attempt did is lost: then it was not executed, and is charged all the same
        with Ledger(path) as ledger:
            assert [entry.executed for entry in ledger.rounds()] == [False, True, True]
    else:
        assert "can't be read" in problem(path)


@pytest.mark.parametrize("keep", [0, 1, 100, 4096, -4096, -1])
def test_a_cut_ledger_is_refused(path: Path, keep: int) -> None:
    path.write_bytes(path.read_bytes()[:keep])
    assert "ledger" in problem(path)


# Edits of the anchor


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"length": 6}, "of another ledger"),
        ({"length": 5}, "they do not belong together"),
        ({"length": 8}, "7 of the 8 entries"),
        ({"head": GENESIS}, "of another ledger"),
        ({"length": "7"}, "can't be read"),
        ({"length": -1}, "can't be read"),
        ({"head": None}, "can't be read"),
    ],
)
def test_an_edited_anchor_is_refused(path: Path, change: dict[str, Any], words: str) -> None:
    anchor_path(path).write_text(json.dumps(json.loads(anchor_path(path).read_text()) | change))
    assert words in problem(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b"{}", b"\xff\xfe"])
def test_an_anchor_that_cannot_be_read_is_refused(path: Path, content: bytes) -> None:
    anchor_path(path).write_bytes(content)
    assert "ledger.head can't be read" in problem(path)


def test_a_missing_anchor_is_refused(path: Path) -> None:
    anchor_path(path).unlink()
    assert "ledger.head is missing" in problem(path)


def test_a_missing_ledger_is_not_begun_anew_beside_its_anchor(path: Path) -> None:
    path.unlink()
    assert "0 of the 7 entries" in problem(path)


# Killed processes


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


def test_a_kill_between_ledger_and_anchor_is_recognised_and_the_next_entry_mends_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dying(*_: object) -> Anchor:
        raise Killed

    with Ledger(path) as ledger:
        monkeypatch.setattr(chained_file, "write_anchor", dying)
        with pytest.raises(Killed):
            add_round(ledger, 3)
        monkeypatch.undo()
    assert read_anchor(path).length == 7
    before = anchor_path(path).read_bytes()
    with Ledger(path) as ledger:  # one entry ahead
        assert [(entry.round, entry.executed) for entry in ledger.rounds()][-1] == (3, False)
    assert anchor_path(path).read_bytes() == before  # reading mends nothing
    with Ledger(path) as ledger:
        add_round(ledger, 3)
        assert [(entry.round, entry.attempt) for entry in ledger.rounds()][-2:] == [(3, 0), (3, 1)]
    assert read_anchor(path).length == 10


def test_an_anchor_that_cannot_be_written_keeps_the_round_from_being_sent_and_is_written_first_next_time(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, calls = os.fsync, [0]

    def full(descriptor: int) -> None:
        calls[0] += 1
        if calls[0] <= 2:
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    with Ledger(path) as ledger:
        monkeypatch.setattr(os, "fsync", full)
        for _ in range(2):  # the second time nothing is added before the anchor knows of the first
            with pytest.raises(FedveilError, match="No space left on device"):
                add_round(ledger, 3)
        assert len(ledger.rounds()) == 4
        assert read_anchor(path).length == 7
        add_round(ledger, 4)
        assert read_anchor(path).length == 10
    with Ledger(path) as ledger:
        assert [entry.round for entry in ledger.rounds()] == [0, 1, 2, 3, 4]


def test_a_ledger_killed_at_its_beginning_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dying(*_: object) -> Anchor:
        raise Killed

    path = tmp_path / "ledger.sqlite"
    with monkeypatch.context() as patch, Ledger(path) as ledger:
        patch.setattr(chained_file, "write_anchor", dying)
        with pytest.raises(Killed):
            ledger.begin({Pin.SPEC: "sigma = 6.0"})
    assert not anchor_path(path).exists()
    fill(path)
    assert read_anchor(path).length == 7


def test_the_ledger_is_synced_before_the_anchor_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, write = [], chained_file.write_anchor

    def watched(ledger: Path, length: int, *rest: Any) -> Anchor:
        copy = ledger.parent / "copy"  # what a crash at this moment would leave behind
        copy.mkdir(exist_ok=True)
        for file in ledger.parent.glob("ledger.*"):
            shutil.copy(file, copy)
        with Ledger(copy / ledger.name) as other:
            seen.append((other.summary.entries, read_anchor(copy / ledger.name).length, length))
        return write(ledger, length, *rest)

    monkeypatch.setattr(chained_file, "write_anchor", watched)
    with Ledger(path) as ledger:
        add_round(ledger, 3)
    assert seen == [(8, 7, 8), (9, 8, 9)]


# Older copies


def test_an_older_copy_of_the_ledger_does_not_fit_the_anchor(path: Path, tmp_path: Path) -> None:
    older = shutil.copy(path, tmp_path / "older")
    with Ledger(path) as ledger:
        add_round(ledger, 3)
    shutil.copy(older, path)
    words = "7 of the 9 entries that ledger.head knows of: it was cut off, or an older copy was put back"
    assert words in problem(path)


def test_an_older_copy_of_ledger_and_anchor_is_noticed_by_a_head_that_was_written_down(
    path: Path, tmp_path: Path
) -> None:
    shutil.copytree(tmp_path, tmp_path / "older")
    with Ledger(path) as ledger:
        add_round(ledger, 3)
        written_down = ledger.head
        ledger.check_head(written_down)
        ledger.check_head(f" {written_down[:16].upper()}\n")
        add_round(ledger, 4)
        ledger.check_head(written_down)  # the run went on since
    with Ledger(tmp_path / "older" / path.name) as ledger:  # right by itself
        with pytest.raises(LedgerUnusable, match=r"never had the head .*: it is another one, or an older copy"):
            ledger.check_head(written_down)
        with pytest.raises(ArgumentError, match="at least 16 characters of a head"):
            ledger.check_head(written_down[:15])
        with pytest.raises(ArgumentError, match="at least 16 characters of a head"):
            ledger.check_head("no head, but long enough")


# A key


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    (tmp_path / "sealed").mkdir()
    fill(tmp_path / "sealed" / "ledger.sqlite", key=KEY)
    return tmp_path / "sealed" / "ledger.sqlite"


def test_a_sealed_ledger_is_read_with_its_key_and_with_no_other(sealed: Path) -> None:
    with Ledger(sealed, key=KEY) as ledger:
        assert ledger.summary.seal is Seal.CHECKED
        add_round(ledger, 3)
    with Ledger(sealed, key=KEY) as ledger:
        assert len(ledger.rounds()) == 4
    assert "not sealed with the key" in problem(sealed, OTHER_KEY)


def test_without_the_key_a_sealed_ledger_is_read_and_not_added_to(sealed: Path) -> None:
    before = (sealed.read_bytes(), anchor_path(sealed).read_bytes())
    with Ledger(sealed) as ledger:
        assert ledger.summary.seal is Seal.UNCHECKED
        assert "not checked" in str(ledger.summary)
        with pytest.raises(FedveilError, match=f"sealed with a key; let {KEY_VARIABLE} name its file to go on"):
            add_round(ledger, 3)
    assert (sealed.read_bytes(), anchor_path(sealed).read_bytes()) == before


def test_who_rewrites_ledger_and_anchor_is_noticed_by_the_key_alone(sealed: Path) -> None:
    rewrite(sealed, with_more_noise)
    database = sqlite3.connect(sealed)
    (head,) = database.execute("SELECT head FROM entries WHERE id = 7").fetchone()
    database.close()
    anchor = json.loads(anchor_path(sealed).read_text())
    anchor_path(sealed).write_text(json.dumps(anchor | {"head": head}))
    with Ledger(sealed) as ledger:  # nothing else knows of it
        assert {charge.declared.sum_std for charge in ledger.charges()} == {8.0}
    assert "not sealed with the key" in problem(sealed, KEY)
    anchor_path(sealed).write_text(json.dumps(anchor | {"head": head, "seal": None}))
    assert "not sealed with the key" in problem(sealed, KEY)


def test_with_a_key_an_unsealed_ledger_is_refused(path: Path) -> None:
    assert "not sealed with the key" in problem(path, KEY)


def test_a_key_comes_from_the_file_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert user_key() is None
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "key"))
    with pytest.raises(FedveilError, match="key: No such file"):
        user_key()
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(FedveilError, match="key: a key has at least 32 random bytes"):
        user_key()
    (tmp_path / "key").write_bytes(KEY)
    assert user_key() == KEY
