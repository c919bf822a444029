"""What must be said below a table of a paper: which records are copied, and what has not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

Row = Mapping[str, Any]


def copies_notes(rows: Sequence[Row]) -> list[str]:
    """One sentence for every number of copies: where records are held so often, and what all copies cost together."""
    told = [row for row in rows if row["copies"] is not None]
    found = []
    for copies in sorted({row["copies"] for row in told if row["copies"] > 1}):
        mine = [row for row in told if row["copies"] == copies]
        words = f"{_where(mine, told, 'in ') or 'here'} up to {copies:,} clients hold the same record"
        counted = [row for row in mine if row["together"] is not None]
        if counted:
            parts = []
            for epsilon in dict.fromkeys(row["together"] for row in counted):
                where = _where([row for row in counted if row["together"] == epsilon], counted, "")
                parts.append(f"ε = {epsilon}" + (f" ({where})" if where else ""))
            words += (
                "; a record's ε speaks of one client's copy, and for all copies together"
                f" what is promised is {', '.join(parts)}"
            )
        elif any(row["place"].startswith("record") and row["relation"] for row in mine):
            words += "; a record's ε speaks of one client's copy"
        found.append(f"records are copied: {words}")
    return found


def _where(mine: Sequence[Row], every: Sequence[Row], before: str) -> str:
    """Which cells these are, by columns or by rows where those tell them apart; nothing where they are all."""
    others = [row for row in every if row not in mine]
    if not others:
        return ""
    for key in ("column", "row"):
        names = dict.fromkeys(row[key] for row in mine)
        if not any(row[key] in names for row in others):
            return before + _listed(list(names))
    columns = dict.fromkeys(row["column"] for row in mine)
    return before + ", ".join(
        f"{column} ({_listed([row['row'] for row in mine if row['column'] == column])})" for column in columns
    )


def _listed(names: Sequence[str]) -> str:
    return ("; " if any("," in name for name in names) else ", ").join(names)


def shown_rows(rows: Sequence[Row], named: Set[tuple[str, str]]) -> list[Row]:
    """The table without the rows and columns in which nothing ran and of which nothing was named; all if that is none.

    `named` are the cells that were asked for by name, as (row, column). A run that failed has been run.
    """
    kept = [row for row in rows if row["runs"] or row["failed"] or (row["row"], row["column"]) in named]
    if not kept:
        return list(rows)
    names, columns = ({row[key] for row in kept} for key in ("row", "column"))
    return [row for row in rows if row["row"] in names and row["column"] in columns]


def left_out_notes(rows: Sequence[Row], shown: Sequence[Row]) -> list[str]:
    """Which columns and rows are not shown."""
    found = []
    for key in ("column", "row"):
        there = {row[key] for row in shown}
        gone = [name for name in dict.fromkeys(row[key] for row in rows) if name not in there]
        if gone:
            found.append(f"{key}s not run, and left out: {', '.join(gone)}")
    return found
