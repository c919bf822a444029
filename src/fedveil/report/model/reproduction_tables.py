"""Tables and pictures of the papers beside ours, from the rows that `--json` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D
from PIL import Image, ImageDraw, ImageFont

from fedveil.core.words import rounded_up
from fedveil.report.plots.comparison import (
    COLOURS,
    DASHES,
    MARKERS,
    legend_below,
    new_figure,
    plain_ticks,
    spans_a_decade,
    style,
    tidy,
)
from fedveil.report.terminal.run_tables import epsilon_or_dash

Row = Mapping[str, Any]

HEADING = 34
"""Pixels for a name above a picture of a montage."""


def reproduction_table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """One line per cell: the paper's value, ours, and the claimed ε beside the verified one where there is one."""
    with_epsilon = any(row["place"] is not None for row in rows)
    headings = ["row", "column", "paper", "ours", *(["claimed ε", "verified ε", "of"] if with_epsilon else [])]
    return headings, [
        [
            row["row"],
            row["column"],
            paper_word(row),
            ours_word(row),
            *([claimed_word(row), verified_word(row), place_word(row)] if with_epsilon else []),
        ]
        for row in rows
    ]


def matrix(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """The table in the shape that the paper prints: ours, and the paper's in brackets."""
    columns = list(dict.fromkeys(row["column"] for row in rows))
    lines = []
    for name in dict.fromkeys(row["row"] for row in rows):
        mine = {row["column"]: row for row in rows if row["row"] == name}
        lines.append([name, *(_both(mine.get(column)) for column in columns)])
    return ["", *columns], lines


def guarantee_table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]] | None:
    """Claimed and verified ε, one line for all columns of a row that agree; None where no cell has an ε.

    "all" stands only where every column of the row has run. δ is told where it is not the same everywhere.
    """
    lines = []
    several = len({row["delta"] for row in rows if row["delta"] is not None}) > 1
    for name in dict.fromkeys(row["row"] for row in rows if row["place"] is not None):
        mine = [row for row in rows if row["row"] == name]
        alike: dict[tuple[str, str, str], list[str]] = {}
        for row in mine:
            if row["place"] is not None:
                delta = f", δ = {row['delta']:g}" if several else ""
                key = (claimed_word(row), verified_word(row), place_word(row) + delta)
                alike.setdefault(key, []).append(row["column"])
        every = len(alike) == 1 and all(row["runs"] for row in mine)
        for (claimed, verified, place), columns in alike.items():
            lines.append([name, "all" if every else ", ".join(columns), claimed, verified, place])
    return (["", "columns", "claimed ε", "verified ε", "of"], lines) if lines else None


def shortfalls(rows: Sequence[Row], leeway: float = 0.01) -> list[str]:
    """Where ours stays below the paper's by more than two deviations and the leeway, and what calibrated noise buys.

    Numbers that are the larger the better; one sentence for every row of the paper, with the place that is worst.
    """
    found = []
    for name in dict.fromkeys(row["row"] for row in rows if not row["added"]):
        both = [row for row in rows if row["row"] == name and _comparable(row)]
        short = [row for row in both if row["paper"] - row["ours"] > leeway + 2 * (row["deviation"] or 0.0)]
        if short:
            worst = max(short, key=lambda row: float(row["paper"] - row["ours"]))
            better = [
                f"; there “{_calibrated_name(row)}” reaches {ours_word(row)}, verified ε = {verified_word(row)}"
                f"{_another_guarantee(row, worst)}"
                for row in rows
                if row["added"] and row["ours"] is not None and _answers(row, worst)
            ]
            found.append(
                f"{name}: the stated number is not reached in {len(short)} of {len(both)} places, furthest at"
                f" {worst['column']}: {ours_word(worst)} instead of {paper_word(worst)}"
                f" (verified ε = {verified_word(worst)}){''.join(better)}"
            )
    return found


def _comparable(row: Row) -> bool:
    return not row["added"] and isinstance(row["paper"], int | float) and isinstance(row["ours"], int | float)


def _answers(row: Row, worst: Row) -> bool:
    """Whether a cell with calibrated noise stands beside another: in its column and population, or in its row."""
    if row["row"] == worst["row"]:
        return "calibrated" in row["column"]
    population = worst["row"].rpartition(", ")[2]
    mine = row["row"].rpartition(", ")[2]
    return row["column"] == worst["column"] and "calibrated" in row["row"] and ("K=" not in mine or mine == population)


def _another_guarantee(row: Row, worst: Row) -> str:
    """Two ε that do not speak of the same thing can't be compared."""
    return "" if place_word(row) == place_word(worst) else f" ({place_word(row)}: another guarantee)"


def _calibrated_name(row: Row) -> str:
    return str(row["row"] if "calibrated" in row["row"] else row["column"])


def _both(row: Row | None) -> str:
    if row is None:
        return ""
    paper = "" if row["paper"] is None else f" ({paper_word(row)})"
    return f"{ours_word(row)}{paper}"


def paper_word(row: Row) -> str:
    value = row["paper"]
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:g}"


def ours_word(row: Row) -> str:
    """Mean ± deviation; in words where there is no number. A verified ε is never rounded down."""
    value = row["ours"]
    if value is None:
        return str(row["words"])
    if value == "inf":
        return "∞"
    if row["certified"]:
        return rounded_up(float(value))
    spread = f" ± {number_word(row['deviation'], row['digits'])}" if row["deviation"] is not None else ""
    part = f" ({row['runs']} of {row['seeds']} seeds)" if row["runs"] < row["seeds"] else ""
    return f"{number_word(value, row['digits'])}{spread}{part}"


def number_word(value: float, digits: int) -> str:
    """So many digits after the point; a number that they would hide is written with three that count."""
    if value and abs(value) < 0.5 * 10.0**-digits:
        return f"{value:.3g}"
    return f"{value:,.{digits}f}"


def verified_word(row: Row) -> str:
    spent, promised = epsilon_or_dash(row["verified"]), epsilon_or_dash(row["promised"])
    words = spent if spent == promised or promised == "–" else f"{spent} of {promised}"
    return f"{words} (not private: bare median)" if row["leaks"] else words


def claimed_word(row: Row) -> str:
    """As the formula gives it: a claim is no certificate, so it is rounded as the paper rounds."""
    value = row["claimed"]
    return "–" if value is None else "∞" if value == "inf" else f"{value:.4g}"


def place_word(row: Row) -> str:
    """Of what, against whom, under which relation: without them a number is not a guarantee."""
    return ", ".join(word for word in (row["place"], row["relation"]) if word) or "–"


def draw_table(path: Path, title: str, value: str, rows: Sequence[Row]) -> None:
    """One line per row of the table over its columns: ours filled, the paper's hollow.

    Points are joined where the columns are values of something, else they stand beside one another.
    """
    if len({row["column"] for row in rows}) == 1:  # a table of one column reads better lying down
        rows = [{**row, "row": row["column"], "column": row["row"]} for row in rows]
    columns = list(dict.fromkeys(row["column"] for row in rows))
    names = list(dict.fromkeys(row["row"] for row in rows))
    figure = new_figure(max(7.5, 2.5 + 0.75 * len(columns)), 5.4 + 0.15 * len(names))
    figure.suptitle(title, fontsize=11)
    axes = figure.subplots()
    handles, every = [], []
    ordered = all("=" in column or "%" in column for column in columns)
    for index, name in enumerate(names):
        look, marker = style(index), MARKERS[index % len(MARKERS)]
        look |= {} if ordered else {"linestyle": ""}
        aside = 0.0 if ordered else 0.6 * (index + 0.5) / len(names) - 0.3
        mine = [row for row in rows if row["row"] == name]
        ours = [(columns.index(row["column"]), row) for row in mine if isinstance(row["ours"], int | float)]
        theirs = [(columns.index(row["column"]), row["paper"]) for row in mine if isinstance(row["paper"], int | float)]
        axes.errorbar(
            [place + aside for place, _ in ours],
            [row["ours"] for _, row in ours],
            yerr=[row["deviation"] or 0.0 for _, row in ours],
            capsize=3, linewidth=1.8, marker=marker, markersize=6, **look,
        )  # fmt: skip
        axes.plot(
            [place + aside for place, _ in theirs],
            [number for _, number in theirs],
            linestyle="", marker=marker, markersize=8, color=look["color"], markerfacecolor="none", markeredgewidth=1.4,
        )  # fmt: skip
        every += [row["ours"] for _, row in ours] + [number for _, number in theirs]
        handles.append(Line2D([], [], linewidth=1.8, marker=marker, markersize=6, **look))
    if any(isinstance(row["paper"], int | float) for row in rows):
        handles.append(Line2D([], [], linestyle="", marker="o", markersize=8, color="0.35", markerfacecolor="none"))
        names.append("hollow: the paper's")
    tidy(axes, "", value)
    axes.set_xticks(range(len(columns)), columns)
    if sum(map(len, columns)) > 60:
        axes.tick_params(axis="x", rotation=35)
    if value != "accuracy" and spans_a_decade([number for number in every if math.isfinite(number)]):
        axes.set_yscale("log")
        plain_ticks(axes, "y")
    legend_below(figure, handles, names)
    figure.savefig(path)


def draw_courses(path: Path, title: str, lines: Sequence[Row], across: str = "rounds") -> None:
    """Over the rounds, or what else is `across`, one panel for each quantity.

    A line has `name`, `panel`, `rounds`, `values`, `deviation`.
    """
    panels, names = (list(dict.fromkeys(line[key] for line in lines)) for key in ("panel", "name"))
    figure = new_figure(max(7.0, 4.6 * len(panels)), 4.8 + 0.1 * len(names))
    figure.suptitle(title, fontsize=11)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        mine = [line for line in lines if line["panel"] == panel]
        for line in mine:
            look = _apart(names.index(line["name"]))
            axes.plot(line["rounds"], line["values"], linewidth=1.8, **look)
            if any(line["deviation"]):
                low, high = (
                    [value + sign * spread for value, spread in zip(line["values"], line["deviation"], strict=True)]
                    for sign in (-1, 1)
                )
                axes.fill_between(line["rounds"], low, high, color=look["color"], alpha=0.15, linewidth=0)
        tidy(axes, across, panel, rounds=across == "rounds")
        if spans_a_decade([value for line in mine for value in line["values"]]):
            axes.set_yscale("log")
    handles = [Line2D([], [], linewidth=1.8, **_apart(index)) for index in range(len(names))]
    legend_below(figure, handles, names)
    figure.savefig(path)


def _apart(index: int) -> dict[str, Any]:
    """Neighbours differ in colour and dash: lines may lie on one another."""
    return {**style(index), "linestyle": DASHES[index % len(DASHES)]}


def draw_montage(path: Path, title: str, pictures: Sequence[tuple[str, Path]], across: int) -> None:
    """Pictures that exist already, at their own size, under one another and side by side, each below its name."""
    images = [(name, Image.open(picture).convert("RGB")) for name, picture in pictures if picture.is_file()]
    if not images:
        return
    lines = [images[first : first + across] for first in range(0, len(images), across)]
    widths = [max(line[place][1].width for line in lines if place < len(line)) for place in range(across)]
    heights = [HEADING + max(picture.height for _, picture in line) for line in lines]
    sheet = Image.new("RGB", (sum(widths), 2 * HEADING + sum(heights)), "white")
    write = ImageDraw.Draw(sheet)
    write.text((10, 10), title, fill="black", font=ImageFont.load_default(24))
    top = 2 * HEADING
    for line, height in zip(lines, heights, strict=True):
        for place, (name, picture) in enumerate(line):
            left = sum(widths[:place])
            write.text((left + 10, top), name, fill="black", font=ImageFont.load_default(20))
            sheet.paste(picture, (left, top + HEADING))
        top += height
    sheet.save(path)


def draw_shares(path: Path, title: str, shares: Sequence[Sequence[float]], classes: Sequence[str]) -> None:
    """One stacked bar per client: which part of its records has which label."""
    figure = new_figure(8.0, 4.6)
    figure.suptitle(title, fontsize=11)
    axes = figure.subplots()
    below = [0.0] * len(shares)
    handles = []
    for index, name in enumerate(classes):
        part = [share[index] for share in shares]
        hatch = "///" if index >= len(COLOURS) else None
        handles.append(
            axes.bar(range(len(shares)), part, bottom=below, color=style(index)["color"], hatch=hatch, label=name)
        )
        below = [low + high for low, high in zip(below, part, strict=True)]
    tidy(axes, "client", "share of its records")
    axes.set_xticks(range(len(shares)))
    legend_below(figure, handles, list(classes))
    figure.savefig(path)
