"""Tables of several runs, from the rows that `--json` prints: for the eye, for Markdown, for a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedveil.core.words import LEAKED, rounded_up

Row = Mapping[str, Any]


def comparison_table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """One line per method."""
    headings = ["method", "accuracy", "best", "rounds", *_epsilon_headings(rows), "claimed ε", "seconds"]
    return headings, [[row["method"], *_measured(row), *_epsilons(row), _claimed(row), _seconds(row)] for row in rows]


def sweep_table(keys: Sequence[str], rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """One line per point of the grid."""
    headings = [*keys, "accuracy", "best", "rounds", *_epsilon_headings(rows), "runs", "seconds"]
    return headings, [
        [
            *(value_word(row["point"][key]) for key in keys),
            *_measured(row),
            *_epsilons(row),
            str(row["runs"]),
            _seconds(row),
        ]
        for row in rows
    ]


def deltas_word(rows: Sequence[Row]) -> str:
    """δ, or all that there are: then each row's ε is at its own."""
    return ", ".join(f"{delta:g}" for delta in dict.fromkeys(row["delta"] for row in rows))


def explanation(rows: Sequence[Row]) -> list[str]:
    """What the columns mean, for below the table."""
    words = []
    if any(row["deviation"] is not None for row in rows):
        words.append("accuracy, best and seconds: mean over the seeds; ± is the standard deviation")
    words.append(
        f"ε at δ = {deltas_word(rows)}: spent (the most of any client and seed) of promised; a record or client is"
        " added or removed, or replaced where it says so"
    )
    words.append("every ε is that of one run alone; all runs on the same records together cost more")
    words += _caveats(rows)
    rejected, updates = (sum(row[key] for row in rows) for key in ("rejected", "rejected_updates"))
    if rejected or updates:
        words.append(f"{rejected:,} examples and {updates:,} updates were not finite and counted as zero")
    return words


def _caveats(rows: Sequence[Row]) -> list[str]:
    """What must be said of the rows' ε, and of which rows where it is not all of them."""
    found = []
    for caveat in dict.fromkeys(caveat for row in rows for caveat in row["caveats"]):
        mine = [_name(row) for row in rows if caveat in row["caveats"]]
        found.append(caveat if len(mine) == len(rows) else f"{', '.join(mine)}: {caveat}")
    return found


def _name(row: Row) -> str:
    if "point" not in row:
        return str(row["method"])
    return " ".join(f"{key}={value_word(value)}" for key, value in row["point"].items())


def value_word(value: Any) -> str:
    """A setting's value, short."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _measured(row: Row) -> list[str]:
    if row["accuracy"] is None:
        return ["failed", "–", "–"]
    spread = f" ± {row['deviation']:.4f}" if row["deviation"] is not None else ""
    if row["failed"]:
        spread += f" ({row['runs']} of {row['runs'] + row['failed']} seeds)"
    return [f"{row['accuracy']:.4f}{spread}", f"{row['best']:.4f}", str(row["rounds"])]


def _epsilon_headings(rows: Sequence[Row]) -> list[str]:
    return [f"ε {cell}" for cell in rows[0]["epsilon"]]


def _epsilons(row: Row) -> list[str]:
    """Marked where they can't be relied on: a number is read without what stands below the table."""
    leaked = any(caveat.startswith(LEAKED) for caveat in row["caveats"])
    return [_spent_of_promised(values, leaked) for values in row["epsilon"].values()]


def _spent_of_promised(values: Mapping[str, Any], leaked: bool) -> str:
    spent, promised = epsilon_or_dash(values["spent"]), epsilon_or_dash(values["promised"])
    words = spent if spent == promised else f"{spent} of {promised}"
    if values["relation"] == "replace-one":
        words += ", replaced"
    return f"{words} (NOT private)" if leaked and values["relation"] is not None else words


def epsilon_or_dash(value: float | str | None) -> str:
    """A certified ε, rounded up; a dash where there is none."""
    return "–" if value is None else rounded_up(float(value))


def _claimed(row: Row) -> str:
    """Cells for which the paper claims the same ε are named together."""
    cells: dict[str, list[str]] = {}
    for claim in row["claimed"]:
        value = "∞" if claim["epsilon"] == "inf" else f"{claim['epsilon']:.4g}"
        cells.setdefault(value, []).append(f"{claim['unit']} × {claim['view']}")
    return "; ".join(f"{value} ({', '.join(names)})" for value, names in cells.items()) or "–"


def _seconds(row: Row) -> str:
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


def csv_text(rows: Sequence[Row]) -> str:
    """Every number in full, one line per row; infinite ones are `inf`, missing ones are empty."""
    return flat_csv([_flat(row) for row in rows])


def flat_csv(flat: Sequence[Row]) -> str:
    """The same for rows without anything inside them."""
    headings = list(dict.fromkeys(key for row in flat for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, headings, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _flat(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in row.items():
        if key == "point":
            found |= {
                name: setting if isinstance(setting, int | float) else value_word(setting)
                for name, setting in value.items()
            }
        elif key == "epsilon":
            for cell, values in value.items():
                found |= {f"epsilon {cell} {kind}": number for kind, number in values.items()}
        elif key == "caveats":
            found[key] = "; ".join(value)
        elif key == "claimed":
            found |= {f"claimed {claim['unit']} × {claim['view']}": claim["epsilon"] for claim in value}
        else:
            found[key] = "" if isinstance(value, float) and math.isnan(value) else value
    return found
