"""Tables of the papers beside ours, from the rows that `--json` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedveil.core.rounding import rounded_up
from fedveil.report.model.number_texts import claimed_text, epsilon_text

ReproductionRow = Mapping[str, Any]
"""One cell of a paper's table, ready for JSON, in the place `row`, `column`: the `paper`'s value and `ours`.

`unit` ("record", "client") and `place` say what its ε speaks of, both None where ε says nothing about the value;
`leaks` that it is not private as it stands, `uncovered` which uses of private records no ε covers. `added` marks what
the paper does not have, `calibrated` a training whose noise was solved for an ε. `population` names the clients where a
table has more than one population, else it is None.
"""


def reproduction_table(rows: Sequence[ReproductionRow]) -> tuple[list[str], list[list[str]]]:
    """One line per cell: the paper's value, ours, and the claimed ε beside the verified one where there is one."""
    with_epsilon = any(row["place"] is not None for row in rows)
    headings = ["row", "column", "paper", "ours", *(["claimed ε", "verified ε", "of"] if with_epsilon else [])]
    return headings, [
        [
            row["row"],
            row["column"],
            _paper_text(row),
            ours_text(row),
            *([claimed_text(row["claimed"]), _verified_text(row), _place_text(row)] if with_epsilon else []),
        ]
        for row in rows
    ]


def matrix(rows: Sequence[ReproductionRow]) -> tuple[list[str], list[list[str]]]:
    """The table in the shape that the paper prints: ours, and the paper's in brackets."""
    columns = list(dict.fromkeys(row["column"] for row in rows))
    lines = []
    for name in dict.fromkeys(row["row"] for row in rows):
        mine = {row["column"]: row for row in rows if row["row"] == name}
        lines.append([name, *(_both(mine.get(column)) for column in columns)])
    return ["", *columns], lines


def guarantee_table(rows: Sequence[ReproductionRow]) -> tuple[list[str], list[list[str]]] | None:
    """Claimed and verified ε, one line for all columns of a row that agree; None where no cell has an ε.

    "all" stands only where every column of the row has run. δ is given where it is not the same everywhere.
    """
    lines = []
    with_delta = len({row["delta"] for row in rows if row["delta"] is not None}) > 1
    for name in dict.fromkeys(row["row"] for row in rows if row["place"] is not None):
        mine = [row for row in rows if row["row"] == name]
        alike: dict[tuple[str, str, str], list[str]] = {}
        for row in mine:
            if row["place"] is not None:
                delta = f", δ = {row['delta']:g}" if with_delta else ""
                key = (claimed_text(row["claimed"]), _verified_text(row), _place_text(row) + delta)
                alike.setdefault(key, []).append(row["column"])
        every = len(alike) == 1 and all(row["runs"] for row in mine)
        for (claimed, verified, place), columns in alike.items():
            lines.append([name, "all" if every else ", ".join(columns), claimed, verified, place])
    return (["", "columns", "claimed ε", "verified ε", "of"], lines) if lines else None


def shortfalls(rows: Sequence[ReproductionRow], leeway: float = 0.01) -> list[str]:
    """Where ours stays below the paper's by more than two deviations and the leeway, and what calibrated noise buys.

    Numbers that are the larger the better; one sentence for every row of the paper, with the place that is worst.
    """
    sentences = []
    for name in dict.fromkeys(row["row"] for row in rows if not row["added"]):
        both = [row for row in rows if row["row"] == name and _comparable(row)]
        short = [row for row in both if row["paper"] - row["ours"] > leeway + 2 * (row["deviation"] or 0.0)]
        if short:
            worst = max(short, key=lambda row: float(row["paper"] - row["ours"]))
            better = [
                f"; there “{row['column' if row['row'] == name else 'row']}” reaches {ours_text(row)},"
                f" verified ε = {_verified_text(row)}{_another_guarantee(row, worst)}"
                for row in rows
                if row["added"] and row["ours"] is not None and _answers(row, worst)
            ]
            sentences.append(
                f"{name}: the stated number is not reached in {len(short)} of {len(both)} places, furthest at"
                f" {worst['column']}: {ours_text(worst)} instead of {_paper_text(worst)}"
                f" (verified ε = {_verified_text(worst)}){''.join(better)}"
            )
    return sentences


def _comparable(row: ReproductionRow) -> bool:
    return not row["added"] and isinstance(row["paper"], int | float) and isinstance(row["ours"], int | float)


def _answers(row: ReproductionRow, worst: ReproductionRow) -> bool:
    """Whether a cell with calibrated noise stands beside another: in its row, or in its column and population."""
    if not row["calibrated"] or row["row"] == worst["row"]:
        return bool(row["calibrated"])
    populations = {row["population"], worst["population"]} - {None}
    return bool(row["column"] == worst["column"] and len(populations) <= 1)


def _another_guarantee(row: ReproductionRow, worst: ReproductionRow) -> str:
    """Two ε that do not speak of the same thing can't be compared."""
    return "" if _place_text(row) == _place_text(worst) else f" ({_place_text(row)}: another guarantee)"


def _both(row: ReproductionRow | None) -> str:
    if row is None:
        return ""
    paper = "" if row["paper"] is None else f" ({_paper_text(row)})"
    return f"{ours_text(row)}{paper}"


def _paper_text(row: ReproductionRow) -> str:
    value = row["paper"]
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:g}"


def ours_text(row: ReproductionRow) -> str:
    """Mean ± deviation; in words where there is no number. A verified ε is never rounded down."""
    value = row["ours"]
    if value is None:
        return str(row["words"])
    if value == "inf":
        return "∞"
    if row["certified"]:
        return rounded_up(float(value))
    spread = f" ± {_digits_text(row['deviation'], row['digits'])}" if row["deviation"] is not None else ""
    part = f" ({row['runs']} of {row['seeds']} seeds)" if row["runs"] < row["seeds"] else ""
    return f"{_digits_text(value, row['digits'])}{spread}{part}"


def _digits_text(value: float, digits: int) -> str:
    """So many digits after the point; a number that they would hide is written with three that count."""
    if value and abs(value) < 0.5 * 10.0**-digits:
        return f"{value:.3g}"
    return f"{value:,.{digits}f}"


def _verified_text(row: ReproductionRow) -> str:
    spent, promised = epsilon_text(row["verified"]), epsilon_text(row["promised"])
    text = spent if row["promised"] is None or spent == promised else f"{spent} of {promised}"
    return f"{text} (not private: bare median)" if row["leaks"] else text


def _place_text(row: ReproductionRow) -> str:
    """Of what, against whom, under which relation: without them a number is not a guarantee."""
    return ", ".join(part for part in (row["place"], row["relation"]) if part) or "–"
