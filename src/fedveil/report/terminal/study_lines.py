"""A comparison or a sweep on a terminal of 80 columns: one headline, a narrow table, numbered notes below it.

What all rows have in common is said once and has no column. What a row's ε rests on is a note, and its number stands in
the row. Everything in full is in the study's own `table.md` and `table.csv`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, zip_longest
from typing import Any

from fedveil.core.guarantee import Relation, cell_name
from fedveil.core.scores import FIGURES
from fedveil.core.types import Unit, View
from fedveil.report.model.number_texts import claimed_text, delta_text, epsilon_text, setting_text
from fedveil.report.model.score_texts import figure_heading, figure_text
from fedveil.report.terminal.run_tables import RunRow
from fedveil.report.terminal.wrapped_lines import COLUMNS, wrapped

_GAP, _NARROWEST = 2, 12


@dataclass(frozen=True)
class _Column:
    """A heading, which may stand on several lines, and a cell per row. `spare`: it can be left out where room lacks."""

    heading: str
    cells: tuple[str, ...]
    flush_right: bool = True
    spare: bool = False
    most: int = COLUMNS  # columns of the terminal
    heading_lines: int = 2

    @property
    def width(self) -> int:
        return min(max(*map(len, self.cells), self._folded), self.most)

    @property
    def _folded(self) -> int:
        """Columns for the heading on so many lines; a word is never broken."""
        longest = max(map(len, self.heading.split()))
        return next(w for w in count(longest) if len(textwrap.wrap(self.heading, w)) <= self.heading_lines)

    def lines(self, text: str) -> list[str]:
        return textwrap.wrap(text, self.width) or [""]


def study_lines(rows: Sequence[RunRow], keys: Sequence[str] = (), remarks: Sequence[str] = ()) -> list[str]:
    """Rows of `fedveil compare`, or of `fedveil sweep` over these keys; `remarks` hold for all of them."""
    notes, marks = _notes(rows)
    columns = [*_labels(rows, keys), *_measured(rows), *_epsilons(rows), _seconds(rows)]
    if any(marks):
        columns.append(_Column("notes", tuple(" ".join(map(str, mine)) for mine in marks), flush_right=False))
    lines = [*wrapped(_headline(rows, keys), hanging="  "), "", *_table(_that_fit(columns)), ""]
    width = len(str(len(notes)))
    for number, text in enumerate(notes, 1):
        lines += wrapped(text, f"  {number:{width}} ", " " * (3 + width))
    for text in [*_of_all(rows), *remarks]:
        lines += wrapped(text, "  · ", "    ")
    return lines


def _headline(rows: Sequence[RunRow], keys: Sequence[str]) -> str:
    """The best row that promises something, and the best of all where that is another one."""
    figure = FIGURES[rows[0]["figure"]]
    trained = [row for row in rows if row[figure.key] is not None]
    if not trained:
        return "no run came to its end"

    def best(among: Sequence[RunRow]) -> RunRow:
        return (max if figure.larger_is_better else min)(among, key=lambda row: row[figure.key])

    def told(row: RunRow) -> str:
        return f"{_name(row, keys)}, {figure.name} {figure_text(figure, row[figure.key], row['unit'])}"

    promising = [row for row in trained if _promised(row) is not None and not row["void"]]
    if not promising:
        return f"best: {told(best(trained))}; none of these promises anything that holds"
    first, overall = best(promising), best(trained)
    cell, epsilon = _promised(first) or ("", "")
    seeded = ", were it not seeded" if first["seeded"] else ""
    notes = "; read what is noted of it" if first["caveats"] else ""
    text = f"best with a promise: {told(first)} at ε = {epsilon} ({cell}{seeded}{notes})"
    return text if overall is first else f"{text}; without one: {told(overall)}"


def _promised(row: RunRow) -> tuple[str, str] | None:
    """The first cell with a finite ε, and that."""
    for cell, values in row["epsilon"].items():
        if values["relation"] is not None:
            return cell, epsilon_text(values["promised"])
    return None


def _name(row: RunRow, keys: Sequence[str]) -> str:
    if not keys:
        return str(row["method"])
    return ", ".join(f"{key} = {setting_text(row['point'][key])}" for key in keys)


def _labels(rows: Sequence[RunRow], keys: Sequence[str]) -> list[_Column]:
    if not keys:
        return [_Column("method", tuple(str(row["method"]) for row in rows), flush_right=False)]
    last = [key.rpartition(".")[2] for key in keys]
    short = last if len(set(last)) == len(last) and sum(map(len, keys)) > COLUMNS // 3 else keys
    texts = {key: tuple(textwrap.shorten(setting_text(row["point"][key]), 24) for row in rows) for key in keys}
    return [_Column(name, texts[key], flush_right=False) for name, key in zip(short, keys, strict=True)]


def _measured(rows: Sequence[RunRow]) -> list[_Column]:
    figure = FIGURES[rows[0]["figure"]]

    def value(row: RunRow) -> str:
        if row[figure.key] is None:
            return "failed"
        spread = "" if row["deviation"] is None else f" ± {figure_text(figure, row['deviation'])}"
        return figure_text(figure, row[figure.key]) + spread

    columns = [_Column(figure_heading(rows[0]), tuple(map(value, rows)))]
    return [*columns, *_differing(rows, "rounds", lambda row: _counted(row["rounds"]))]


def _differing(rows: Sequence[RunRow], heading: str, text: Callable[[RunRow], str]) -> list[_Column]:
    texts = tuple(map(text, rows))
    return [_Column(heading, texts)] if len(set(texts)) > 1 else []


def _epsilons(rows: Sequence[RunRow]) -> list[_Column]:
    """A column for every cell in which rows differ; where all have the same it is said below."""
    columns = []
    for cell in rows[0]["epsilon"]:
        texts = tuple(_spent(row["epsilon"][cell], row["void"]) for row in rows)
        if len(rows) == 1 or len(set(texts)) > 1:
            columns.append(_Column(f"ε {cell}", texts))
    return columns


def _spent(values: Mapping[str, Any], void: bool) -> str:
    spent, promised = epsilon_text(values["spent"]), epsilon_text(values["promised"])
    text = spent if spent == promised else f"{spent} of {promised}"
    return f"{spent}, void" if void and values["relation"] is not None else text


def _seconds(rows: Sequence[RunRow]) -> _Column:
    texts = tuple("–" if row["seconds"] is None else f"{row['seconds']:.1f}" for row in rows)
    return _Column("seconds", texts, spare=True)


def _rounds(number: int) -> str:
    return f"{number:,} round{'' if number == 1 else 's'}"


def _counted(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _notes(rows: Sequence[RunRow]) -> tuple[list[str], list[list[int]]]:
    """What must be said of some rows, each once, and for every row the numbers of what is said of it."""
    said = [dict.fromkeys(_said_of(row)) for row in rows]
    everywhere = [text for text in said[0] if len(rows) > 1 and all(text in mine for mine in said)]
    notes = [text for text in dict.fromkeys(text for mine in said for text in mine) if text not in everywhere]
    return notes, [[notes.index(text) + 1 for text in mine if text not in everywhere] for mine in said]


def _said_of(row: RunRow) -> list[str]:
    texts = []
    if row["failed"]:
        texts.append(f"{row['failed']} of {row['failed'] + row['runs']} runs failed and do not count")
    if row["void"]:
        texts.append("void: the ε can't be relied on as it stands")
    texts += row["caveats"]
    replaced = [cell for cell, one in row["epsilon"].items() if one["relation"] == Relation.REPLACE_ONE]
    texts += [f"{' and '.join(replaced)}: replaced, not added or removed"] if replaced else []
    claims: dict[str, list[str]] = {}
    for claim in row["claimed"]:
        name = cell_name(Unit(claim["unit"]), View(claim["view"]))
        claims.setdefault(claimed_text(claim["epsilon"]), []).append(name)
    return texts + [f"its paper claims ε = {value} ({', '.join(cells)})" for value, cells in claims.items()]


def _of_all(rows: Sequence[RunRow]) -> list[str]:
    """What holds for every row."""
    said = [dict.fromkeys(_said_of(row)) for row in rows]
    texts = [text for text in said[0] if len(rows) > 1 and all(text in mine for mine in said)]
    for cell in rows[0]["epsilon"]:
        every = {_spent(row["epsilon"][cell], row["void"]) for row in rows}
        if len(rows) > 1 and len(every) == 1:
            texts.append(f"{cell}: ε = {every.pop()} in every row")
    counts = {row["rounds"] for row in rows}
    rounds = f"{_rounds(counts.pop())}; " if len(counts) == 1 and None not in counts else ""
    spread = "mean ± standard deviation over the seeds; " if any(row["deviation"] is not None for row in rows) else ""
    deltas = dict.fromkeys(delta_text(row["delta"]) for row in rows)
    texts.append(f"{rounds}{spread}ε at δ = {', '.join(deltas)}: what was spent, of what was promised")
    majorities = dict.fromkeys(f"{row['majority']:.4f}" for row in rows if row["majority"] is not None)
    if majorities:
        texts.append(f"always naming the commonest class: accuracy {', '.join(majorities)}")
    texts.append("every ε is that of one run alone; all runs on the same records together cost more")
    rejected, updates = (sum(row[key] for row in rows) for key in ("rejected", "rejected_updates"))
    if rejected or updates:
        texts.append(f"{rejected:,} examples and {updates:,} updates were not finite and counted as zero")
    return texts


def _that_fit(columns: list[_Column]) -> list[_Column]:
    """All of them; else with higher headings, then without what can be spared, then with narrower names."""
    if _room(columns) > COLUMNS:
        columns = [replace(column, heading_lines=len(column.heading.split())) for column in columns]
    if _room(columns) > COLUMNS:
        columns = [column for column in columns if not column.spare]
    first, *others = columns
    narrow = max(COLUMNS - _room(others) - _GAP, _NARROWEST)
    return [replace(first, most=narrow), *others] if first.width > narrow else columns


def _room(columns: Sequence[_Column]) -> int:
    return sum(column.width + _GAP for column in columns) - _GAP


def _table(columns: Sequence[_Column]) -> list[str]:
    heads = [column.lines(column.heading) for column in columns]
    deep = max(map(len, heads))
    lines = _side_by_side(columns, [[""] * (deep - len(head)) + head for head in heads])
    for cells in zip(*(column.cells for column in columns), strict=True):
        lines += _side_by_side(columns, [column.lines(cell) for column, cell in zip(columns, cells, strict=True)])
    return lines


def _side_by_side(columns: Sequence[_Column], texts: Sequence[Sequence[str]]) -> list[str]:
    lines = []
    for parts in zip_longest(*texts, fillvalue=""):
        cells = [
            part.rjust(column.width) if column.flush_right else part.ljust(column.width)
            for column, part in zip(columns, parts, strict=True)
        ]
        lines.append((" " * _GAP).join(cells).rstrip())
    return lines
