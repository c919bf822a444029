"""Tables of several runs, from the rows that `--json` prints: for the eye, for Markdown, for a spreadsheet."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedveil.core.guarantee import Relation, cell_name
from fedveil.core.scores import FIGURES
from fedveil.core.types import Unit, View
from fedveil.report.model.number_texts import claimed_text, deltas_text, epsilon_text, setting_text
from fedveil.report.model.score_texts import figure_heading, figure_text

RunRow = Mapping[str, Any]
"""Repeated runs of one spec, ready for JSON. `figure` is the key of the task's main figure, `best` its best value after
any round, `majority` the accuracy of always naming the commonest class. `void` says that the row's ε can't be relied on
as they stand; `caveats` are the texts that must be read with them. `epsilon` has for each cell `spent`, `promised` (a
number, "inf" or None) and the `relation`, None where nothing is promised; `claimed` has the papers' claims."""


def comparison_table(rows: Sequence[RunRow]) -> tuple[list[str], list[list[str]]]:
    """One line per method."""
    headings = ["method", figure_heading(rows[0]), "best", "rounds", *_epsilon_headings(rows), "claimed ε", "seconds"]
    return headings, [[row["method"], *_measured(row), *_epsilons(row), _claimed(row), _seconds(row)] for row in rows]


def sweep_table(keys: Sequence[str], rows: Sequence[RunRow]) -> tuple[list[str], list[list[str]]]:
    """One line per point of the grid."""
    headings = [*keys, figure_heading(rows[0]), "best", "rounds", *_epsilon_headings(rows), "runs", "seconds"]
    return headings, [
        [
            *(setting_text(row["point"][key]) for key in keys),
            *_measured(row),
            *_epsilons(row),
            str(row["runs"]),
            _seconds(row),
        ]
        for row in rows
    ]


def explanation(rows: Sequence[RunRow]) -> list[str]:
    """What the columns mean, for below the table."""
    remarks = []
    if any(row["deviation"] is not None for row in rows):
        remarks.append(
            f"{FIGURES[rows[0]['figure']].name}, best and seconds: mean over the seeds; ± is the standard deviation"
        )
    majorities = dict.fromkeys(row["majority"] for row in rows if row["majority"] is not None)
    if majorities:
        shares = ", ".join(f"{share:.4f}" for share in majorities)
        remarks.append(f"always naming the commonest class has an accuracy of {shares}")
    remarks.append(
        f"ε at δ = {deltas_text(rows)}: spent (the most of any client and seed) of promised; a record or client is"
        " added or removed, or replaced where it says so"
    )
    remarks.append("every ε is that of one run alone; all runs on the same records together cost more")
    remarks += _caveats(rows)
    rejected, updates = (sum(row[key] for row in rows) for key in ("rejected", "rejected_updates"))
    if rejected or updates:
        remarks.append(f"{rejected:,} examples and {updates:,} updates were not finite and counted as zero")
    return remarks


def _caveats(rows: Sequence[RunRow]) -> list[str]:
    """What must be said of the rows' ε, and of which rows where it is not all of them."""
    names: dict[str, list[str]] = {}
    for row in rows:
        for text in dict.fromkeys(row["caveats"]):
            names.setdefault(text, []).append(_name(row))
    return [text if len(mine) == len(rows) else f"{', '.join(mine)}: {text}" for text, mine in names.items()]


def _name(row: RunRow) -> str:
    if "point" not in row:
        return str(row["method"])
    return " ".join(f"{key}={setting_text(value)}" for key, value in row["point"].items())


def _measured(row: RunRow) -> list[str]:
    figure = FIGURES[row["figure"]]
    if row[figure.key] is None:
        return ["failed", "–", "–"]
    spread = f" ± {figure_text(figure, row['deviation'])}" if row["deviation"] is not None else ""
    if row["failed"]:
        spread += f" ({row['runs']} of {row['runs'] + row['failed']} seeds)"
    value, best = (figure_text(figure, row[key]) for key in (figure.key, "best"))
    return [f"{value}{spread}", best, str(row["rounds"])]


def _epsilon_headings(rows: Sequence[RunRow]) -> list[str]:
    return [f"ε {cell}" for cell in rows[0]["epsilon"]]


def _epsilons(row: RunRow) -> list[str]:
    """Marked where they can't be relied on: a number is read without what stands below the table."""
    return [_spent_of_promised(values, row["void"]) for values in row["epsilon"].values()]


def _spent_of_promised(values: Mapping[str, Any], void: bool) -> str:
    spent, promised = epsilon_text(values["spent"]), epsilon_text(values["promised"])
    text = spent if spent == promised else f"{spent} of {promised}"
    if values["relation"] == Relation.REPLACE_ONE:
        text += ", replaced"
    return f"{text} (NOT private)" if void and values["relation"] is not None else text


def _claimed(row: RunRow) -> str:
    """Cells for which the paper claims the same ε are named together."""
    cells: dict[str, list[str]] = {}
    for claim in row["claimed"]:
        cells.setdefault(claimed_text(claim["epsilon"]), []).append(_claim_name(claim))
    return "; ".join(f"{value} ({', '.join(names)})" for value, names in cells.items()) or "–"


def _claim_name(claim: Mapping[str, Any]) -> str:
    return cell_name(Unit(claim["unit"]), View(claim["view"]))


def _seconds(row: RunRow) -> str:
    return "–" if row["seconds"] is None else f"{row['seconds']:.1f}"


def plain_text(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Columns side by side; what looks like a number is set flush right."""
    widths = [max(len(cell) for cell in column) for column in zip(headings, *lines, strict=True)]
    right = [all(_numeric(line[index]) for line in lines) for index in range(len(headings))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [headings, *lines]
    )


def _numeric(text: str) -> bool:
    return not text or (text[0] in "0123456789.-–∞" and "×" not in text)


def markdown_text(headings: Sequence[str], lines: Sequence[Sequence[str]], remarks: Sequence[str]) -> str:
    """A table for a document, with the remarks as a list below it."""
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in [headings, ["---"] * len(headings), *lines]]
    table = "\n".join(f"| {' | '.join(line)} |" for line in escaped)
    return "\n".join([table, *(["", *(f"- {remark}" for remark in remarks)] if remarks else []), ""])


def csv_text(rows: Sequence[RunRow]) -> str:
    """Every number in full, one line per row; infinite ones are `inf`, missing ones are empty."""
    return flat_csv([_flat(row) for row in rows])


def flat_csv(flat: Sequence[RunRow]) -> str:
    """The same for rows without anything inside them."""
    headings = list(dict.fromkeys(key for row in flat for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, headings, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _flat(row: RunRow) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if key == "point":
            flat |= {
                name: setting if isinstance(setting, int | float) else setting_text(setting)
                for name, setting in value.items()
            }
        elif key == "epsilon":
            for cell, values in value.items():
                flat |= {f"epsilon {cell} {kind}": number for kind, number in values.items()}
        elif key == "caveats":
            flat[key] = "; ".join(value)
        elif key == "claimed":
            flat |= {f"claimed {_claim_name(claim)}": claim["epsilon"] for claim in value}
        else:
            flat[key] = "" if isinstance(value, float) and math.isnan(value) else value
    return flat
