"""What stands below a table of a paper."""

from __future__ import annotations

from typing import Any

from fedveil.report.model.reproduction_notes import copies_notes, left_out_notes, shown_rows


def cell(row: str, column: str, **more: Any) -> dict[str, Any]:
    plain = {"runs": 1, "failed": 0, "unit": "record", "relation": "add-or-remove", "copies": 1}
    return {"row": row, "column": column, **plain, "together": None, **more}


def waiting(row: str, column: str) -> dict[str, Any]:
    return cell(row, column, runs=0, unit=None, relation=None, copies=None)


def test_copies_are_told_with_their_columns_and_what_all_cost_together() -> None:
    rows = [
        cell("Fed-CDP", "K=100"),
        cell("Fed-CDP", "K=1000", copies=10, together="44.2"),
        cell("calibrated", "K=100"),
        cell("calibrated", "K=1000", copies=10, together="5.61"),
    ]
    assert copies_notes(rows) == [
        "records are copied: in K=1000 up to 10 clients hold the same record; a record's ε speaks of one client's copy,"
        " and for all copies together what is promised is ε = 44.2 (Fed-CDP), ε = 5.61 (calibrated)"
    ]


def test_copies_are_told_by_rows_where_columns_do_not_tell_them_apart_and_without_a_number_where_there_is_none() -> (
    None
):
    rows = [cell("K=100", "accuracy"), cell("K=1000", "accuracy", copies=10), waiting("K=10000", "accuracy")]
    assert copies_notes(rows) == [
        "records are copied: in K=1000 up to 10 clients hold the same record; a record's ε speaks of one client's copy"
    ]
    nothing = [cell("K=1000", "accuracy", copies=10, unit="client", relation=None)]
    assert copies_notes(nothing) == ["records are copied: here up to 10 clients hold the same record"]
    assert copies_notes([rows[0], rows[2]]) == []


def test_copies_are_told_cell_by_cell_where_neither_rows_nor_columns_tell_them_apart() -> None:
    rows = [cell("client, a", "x", copies=9), cell("client, b", "x", copies=9), cell("c", "x"), cell("client, a", "y")]
    (note,) = copies_notes([*rows, cell("client, b", "y")])
    assert note.startswith("records are copied: in x (client, a; client, b) up to 9 clients hold the same record;")


def test_rows_and_columns_without_a_run_are_left_out_and_named() -> None:
    rows = [
        cell("a", "1"),
        waiting("a", "2"),
        waiting("a", "3"),
        waiting("b", "1"),
        waiting("b", "2"),
        waiting("c", "3"),
    ]
    assert shown_rows(rows, set()) == [rows[0]]
    assert left_out_notes(rows, shown_rows(rows, set())) == [
        "columns not run, and left out: 2, 3",
        "rows not run, and left out: b, c",
    ]
    assert shown_rows(rows, {("b", "2")}) == [rows[0], rows[1], rows[3], rows[4]]


def test_a_column_whose_runs_failed_is_shown_and_where_nothing_ran_all_is() -> None:
    lost = {**waiting("b", "2"), "failed": 1}
    assert shown_rows([cell("a", "1"), lost], set()) == [cell("a", "1"), lost]
    rows = [waiting("a", "1"), waiting("b", "2")]
    assert shown_rows(rows, set()) == rows
    assert left_out_notes(rows, rows) == []
