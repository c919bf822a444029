"""Pictures of the papers' tables and figures beside ours, from the rows that `--json` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image, ImageDraw, ImageFont

from fedveil.report.model.reproduction_tables import ReproductionRow
from fedveil.report.plots.figures import (
    LINE_COLOURS,
    LINE_DASHES,
    legend_below,
    line_style,
    marker_of,
    new_figure,
    plain_ticks,
    spans_a_decade,
    tidy,
)

HEADING = 34
"""Pixels for a name above a picture of a montage."""


def draw_table(
    path: Path, title: str, value: str, rows: Sequence[ReproductionRow], *, ordered: bool, logarithmic: bool
) -> Figure:
    """One line per row of the table over its columns: ours filled, the paper's hollow. One column alone lies across.

    `ordered` says that what lies across are values of something: then points are joined, else they stand beside one
    another. `logarithmic` lets the axis of the `value` be that, where the numbers span more than a decade.
    """
    if len({row["column"] for row in rows}) == 1:  # a table of one column reads better lying down
        rows = [{**row, "row": row["column"], "column": row["row"]} for row in rows]
    columns = list(dict.fromkeys(row["column"] for row in rows))
    names = list(dict.fromkeys(row["row"] for row in rows))
    figure = new_figure(max(7.5, 2.5 + 0.75 * len(columns)), 5.4 + 0.15 * len(names))
    figure.suptitle(title, fontsize=11)
    axes = figure.subplots()
    handles, every = [], []
    for index, name in enumerate(names):
        look, marker = line_style(index), marker_of(index)
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
    if logarithmic and spans_a_decade([number for number in every if math.isfinite(number)]):
        axes.set_yscale("log")
        plain_ticks(axes, "y")
    legend_below(figure, handles, names)
    figure.savefig(path)
    return figure


def draw_quantities(path: Path, title: str, lines: Sequence[Mapping[str, Any]], across: str | None = None) -> Figure:
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
        tidy(axes, across or "rounds", panel, rounds=across is None)
        if spans_a_decade([value for line in mine for value in line["values"]]):
            axes.set_yscale("log")
    handles = [Line2D([], [], linewidth=1.8, **_apart(index)) for index in range(len(names))]
    legend_below(figure, handles, names)
    figure.savefig(path)
    return figure


def _apart(index: int) -> dict[str, Any]:
    """Neighbours differ in colour and dash: lines may lie on one another."""
    return {**line_style(index), "linestyle": LINE_DASHES[index % len(LINE_DASHES)]}


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


def draw_shares(path: Path, title: str, shares: Sequence[Sequence[float]], classes: Sequence[str]) -> Figure:
    """One stacked bar per client: which part of its records has which label."""
    figure = new_figure(8.0, 4.6)
    figure.suptitle(title, fontsize=11)
    axes = figure.subplots()
    below = [0.0] * len(shares)
    handles = []
    for index, name in enumerate(classes):
        part = [share[index] for share in shares]
        hatch = "///" if index >= len(LINE_COLOURS) else None
        handles.append(
            axes.bar(range(len(shares)), part, bottom=below, color=line_style(index)["color"], hatch=hatch, label=name)
        )
        below = [low + high for low, high in zip(below, part, strict=True)]
    tidy(axes, "client", "share of its records")
    axes.set_xticks(range(len(shares)))
    legend_below(figure, handles, list(classes))
    figure.savefig(path)
    return figure
