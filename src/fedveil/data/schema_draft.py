"""A first schema for a table, to be edited by somebody who knows what the columns mean.

What it says was read off the records and is private until it is replaced by what is documented: every column is marked
with `source = "data"`, and a training with such a column carries that as a caveat.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomli_w

from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.data.column_summary import ALSO_MISSING, ColumnSummary
from fedveil.data.schema import FROM_DATA, LONGEST_TEXT, Schema
from fedveil.data.table_sources import BLOCK_ROWS, DELIMITERS, CsvFile, check_columns, open_table

_HEAD = """\
# A draft that was made from {name}. Everything marked source = "data" was read off its records, so it is
# PRIVATE UNTIL YOU REPLACE IT: put in the range or the categories that are documented for the column, by whoever
# measures it, and remove the line. Until then keep this file to yourself. A training says with every guarantee that
# no noise covers this.
"""
_PRIVATE = "  # private until you replace it"
_MOST_CODES = 20
"""A target of at most so many whole numbers is taken for classes."""


def draft_schema(
    source: object,
    *,
    target: str | None = None,
    site: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> str:
    """The text of a schema file for a table, with comments that say what is to be looked at."""
    delimiter = _delimiter(source)
    table = open_table(source, delimiter)
    header = table.header()
    check_columns(table, [name for name in header if name])
    for argument, column in (("target", target), ("site", site)):
        if column is not None and column not in header:
            raise ArgumentError(argument, f"{table.name} has no column {column!r}; it has {', '.join(header[:30])}")
    named = [name for name in header if _plain(name) and name != site]
    summaries = {name: ColumnSummary(Schema.missing_texts) for name in named}
    rows = 0
    for block in table.blocks(named, BLOCK_ROWS):
        for name, summary in summaries.items():
            summary.add(block.columns[name])
        rows += block.rows
        if progress is not None:
            progress(rows)
    if not rows:
        raise FedveilError(f"{table.name}: has no rows")
    seen = set().union(*(summary.seen_missing for summary in summaries.values()))
    missing_texts = [*Schema.missing_texts, *(text for text in ALSO_MISSING if text in seen)]
    lines = [_HEAD.format(name=Path(table.name).name)]
    lines += [_entry({"target": target})] if target else ['# target = "…"  # say which column is to be predicted\n']
    lines += [_entry({"site": site})] if site else []
    lines += [_entry({"missing_texts": missing_texts}, "stand for a missing value in every column")]
    lines += [_entry({"delimiter": delimiter})] if delimiter != Schema.delimiter else []
    for name, summary in summaries.items():
        lines.append(_column_text(name, summary, target=name == target))
    return "".join(lines)


def _delimiter(source: object) -> str:
    """The one that makes the most columns of the first line."""
    if not isinstance(source, str | Path) or not isinstance(open_table(source), CsvFile):
        return Schema.delimiter
    columns = {}
    for delimiter in DELIMITERS:
        try:
            columns[delimiter] = len(CsvFile(Path(source), delimiter).header())
        except FedveilError:
            if delimiter == Schema.delimiter:
                raise
    return max(columns, key=lambda delimiter: columns[delimiter])


def _plain(text: str) -> bool:
    return bool(text) and text == text.strip() and text.isprintable() and len(text) <= LONGEST_TEXT


def _column_text(name: str, summary: ColumnSummary, *, target: bool) -> str:
    heading = "\n" + tomli_w.dumps({"columns": {name: {}}}).strip() + "\n"
    table, comment = _column_table(summary, target=target)
    if target and "drop" in table:
        raise ArgumentError("target", f"column {name!r} can't be predicted: {comment}")
    text = heading + (f"# {comment}\n" if comment else "")
    for key, value in table.items():
        text += _entry({key: value}).rstrip("\n") + (_PRIVATE if key == "source" else "") + "\n"
    return text


def _column_table(summary: ColumnSummary, *, target: bool) -> tuple[dict[str, Any], str]:
    """What is said of a column, and what its editor should look at."""
    if not summary.present:
        return {"drop": True}, "there is nothing in it"
    if summary.few and len(summary.texts) == 1:
        return {"drop": True}, "it has the same value in every row"
    missing = {} if not summary.missing else {"missing": "drop" if target else "flag"}
    marked = {**missing, "source": FROM_DATA}
    if summary.flags:
        return {"type": "flag", **marked}, ""
    codes = summary.numeric and summary.whole and summary.few and len(summary.texts) <= _MOST_CODES
    if summary.numeric and not (target and codes):
        return _number_table(summary, marked, codes=codes, target=target)
    if summary.numbers > summary.present // 2 and not summary.numeric:
        return {"drop": True}, f"mostly numbers, but {summary.no_number!r:.60} is none; mend that and draft again"
    if not summary.few:
        return {"drop": True}, "too many different texts for categories: a name, a date or an identifier?"
    texts = sorted(summary.texts, key=_order)
    if not all(map(_plain, texts)):
        return {"drop": True}, "it has texts that can't be printed"
    return {"type": "category", "categories": texts, **marked}, ""


def _number_table(
    summary: ColumnSummary, marked: dict[str, Any], *, codes: bool, target: bool
) -> tuple[dict[str, Any], str]:
    low, high = (int(edge) if edge.is_integer() and abs(edge) < 1e15 else edge for edge in (summary.low, summary.high))
    if not low < high:  # 1 and 1.0
        return {"drop": True}, "it has the same value in every row"
    if max(abs(low), abs(high)) > 1e30:
        return {"drop": True}, "its numbers are too large to be measured"
    comment = ""
    if codes:
        comment = 'few different whole numbers: if they are codes, say type = "category" and categories = […]'
    table = {"type": "number", "low": low, "high": high, "outside": "clip", **marked}
    if summary.by_factors and not codes and not target:
        return table | {"scale": "logarithm"}, "most are far below the largest, so they are compared by factors"
    return table, comment


def _order(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return math.inf, text


def _entry(table: dict[str, Any], comment: str = "") -> str:
    """One line of TOML."""
    ((key, value),) = table.items()
    if isinstance(value, list):
        items = ", ".join(_entry({"x": item}).removeprefix("x = ").rstrip("\n") for item in value)
        line = f"{key} = [{items}]"
    else:
        line = tomli_w.dumps(table).rstrip("\n")
    return line + (f"  # {comment}" if comment else "") + "\n"
