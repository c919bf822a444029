"""What must be said below a table of a paper: which records are copied, and what has not run."""

from __future__ import annotations

from collections.abc import Sequence, Set

from fedveil.core.types import Unit
from fedveil.report.model.reproduction_tables import ReproductionRow


def copies_notes(rows: Sequence[ReproductionRow]) -> list[str]:
    """One sentence for every number of copies: where records are held so often, and what all copies cost together."""
    known = [row for row in rows if row["copies"] is not None]
    sentences = []
    for copies in sorted({row["copies"] for row in known if row["copies"] > 1}):
        mine = [row for row in known if row["copies"] == copies]
        note = f"{_where(mine, known, 'in ') or 'here'} up to {copies:,} clients hold the same record"
        counted = [row for row in mine if row["together"] is not None]
        if counted:
            parts = []
            for epsilon in dict.fromkeys(row["together"] for row in counted):
                where = _where([row for row in counted if row["together"] == epsilon], counted, "")
                parts.append(f"ε = {epsilon}" + (f" ({where})" if where else ""))
            note += (
                "; a record's ε speaks of one client's copy, and for all copies together"
                f" what is promised is {', '.join(parts)}"
            )
        elif any(row["unit"] == Unit.RECORD and row["relation"] for row in mine):
            note += "; a record's ε speaks of one client's copy"
        sentences.append(f"records are copied: {note}")
    return sentences


def _where(mine: Sequence[ReproductionRow], every: Sequence[ReproductionRow], before: str) -> str:
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


def shown_rows(rows: Sequence[ReproductionRow], named: Set[tuple[str, str]]) -> list[ReproductionRow]:
    """The table without the rows and columns in which nothing ran and of which nothing was named; all if that is none.

    `named` are the cells that were asked for by name, as (row, column). A run that failed has been run.
    """
    kept = [row for row in rows if row["runs"] or row["failed"] or (row["row"], row["column"]) in named]
    if not kept:
        return list(rows)
    names, columns = ({row[key] for row in kept} for key in ("row", "column"))
    return [row for row in rows if row["row"] in names and row["column"] in columns]


def left_out_notes(rows: Sequence[ReproductionRow], shown: Sequence[ReproductionRow]) -> list[str]:
    """Which columns and rows are not shown."""
    notes = []
    for key in ("column", "row"):
        there = {row[key] for row in shown}
        gone = [name for name in dict.fromkeys(row[key] for row in rows) if name not in there]
        if gone:
            notes.append(f"{key}s not run, and left out: {', '.join(gone)}")
    return notes
