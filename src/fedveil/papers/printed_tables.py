"""The papers' own numbers, read from `papers.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fedveil.core.errors import FedveilError

Value = float | int | str


@dataclass(frozen=True)
class Printed:
    """A table as its paper prints it; a figure has no rows."""

    name: str
    paper: str
    number: str
    caption: str
    note: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Value, ...]]

    def value(self, row: str, column: str) -> Value | None:
        """What stands there; None where the paper has no such place, or leaves it empty."""
        if row not in self.rows or column not in self.columns:
            return None
        printed = self.rows[row][self.columns.index(column)]
        return None if printed == "" else printed


@cache
def printed_tables() -> dict[str, Printed]:
    """Every table and figure, by name."""
    text = (files("fedveil.papers") / "papers.toml").read_text(encoding="utf-8")
    return {name: _printed(name, table) for name, table in tomllib.loads(text).items()}


def _printed(name: str, table: Mapping[str, object]) -> Printed:
    rows, columns = table["rows"], table["columns"]
    assert isinstance(rows, dict)
    assert isinstance(columns, list)
    for row, values in rows.items():
        if len(values) != len(columns):
            raise FedveilError(f"papers.toml: {name}, row {row!r} has {len(values)} values for {len(columns)} columns")
    return Printed(
        name=name,
        paper=str(table["paper"]),
        number=str(table["number"]),
        caption=str(table["caption"]),
        note=str(table["note"]),
        columns=tuple(columns),
        rows={row: tuple(values) for row, values in rows.items()},
    )


def number(table: str, row: str, column: str) -> float:
    """A number of a paper's table that a setting is taken from."""
    printed = printed_tables()[table].value(row, column)
    assert isinstance(printed, int | float), (table, row, column)
    return float(printed)
