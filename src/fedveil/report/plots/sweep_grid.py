"""A grid of settings: the main figure and the promised ε over the first key, one line per value of the second."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from fedveil.report.model.number_texts import deltas_text, setting_text
from fedveil.report.model.score_texts import figure_heading
from fedveil.report.plots.figures import (
    legend_below,
    line_style,
    marker_of,
    new_figure,
    plain_ticks,
    spans_a_decade,
    tidy,
)


def draw_sweep(path: Path, title: str, keys: Sequence[str], rows: Sequence[Mapping[str, Any]], cell: str) -> Figure:
    """The task's main figure with error bars over the first key, and the promised ε beside it.

    There is one line per value of the second key. A row has its `point` (key → value), the value of its `figure` and
    the `deviation` (None where there is none), and its `epsilon`.
    """
    first, second = keys[0], keys[1] if len(keys) > 1 else None
    figure = new_figure(11.5, 4.9 if second is None else 5.4)
    figure.suptitle(title, fontsize=12)
    left, right = figure.subplots(1, 2)
    ticks = _Ticks(_distinct(row["point"][first] for row in rows))
    values = _distinct(row["point"][second] for row in rows) if second else [None]
    lines = [[row for row in rows if second is None or row["point"][second] == value] for value in values]
    looks = [
        {**line_style(index), **ticks.joined, "marker": marker_of(index), "linewidth": 2, "markersize": 6}
        for index in range(len(lines))
    ]
    for index, (line, look) in enumerate(zip(lines, looks, strict=True)):
        aside = ticks.aside(index, len(lines))
        finished = [row for row in line if row[row["figure"]] is not None]
        places = [ticks.place(row["point"][first]) + aside for row in finished]
        spreads = [row["deviation"] or 0.0 for row in finished]
        measured = [row[row["figure"]] for row in finished]
        left.errorbar(places, measured, yerr=spreads, capsize=4, elinewidth=1.3, **look)
    seeds = max(row["runs"] for row in rows)
    heading = figure_heading(rows[0])
    tidy(left, first, f"{heading} (mean ± deviation of {seeds} seeds)" if seeds > 1 else heading)
    tidy(right, first, f"verified ε at δ = {deltas_text(rows)}, {cell}")
    _draw_promised(right, ticks, first, second, [[_promise(row, first, cell) for row in line] for line in lines], looks)
    for axes in (left, right):
        ticks.mark(axes)
    if second is not None:
        handles = [Line2D([], [], **look) for look in looks]
        legend_below(figure, handles, [f"{second} = {setting_text(value)}" for value in values])
    figure.savefig(path)
    return figure


def _promise(row: Mapping[str, Any], first: str, cell: str) -> tuple[Any, float]:
    return row["point"][first], float(row["epsilon"][cell]["promised"])


def _draw_promised(
    axes: Axes,
    ticks: _Ticks,
    first: str,
    second: str | None,
    lines: Sequence[Sequence[tuple[Any, float]]],
    looks: Sequence[Mapping[str, Any]],
) -> None:
    """ε of every line; lines that lie over one another are drawn once and said to, what is ∞ is named above."""
    remarks = []
    if len(lines) > 1 and all(_alike(line, lines[0]) for line in lines):
        lines, looks = lines[:1], [{**looks[0], "color": "0.25"}]
        remarks.append(f"the same for every {second}")
    for index, (line, look) in enumerate(zip(lines, looks, strict=True)):
        aside = ticks.aside(index, len(lines))
        known = [(ticks.place(value) + aside, epsilon) for value, epsilon in line if math.isfinite(epsilon)]
        axes.plot([place for place, _ in known], [epsilon for _, epsilon in known], **look)
    every = [epsilon for line in lines for _, epsilon in line]
    infinite = _distinct(setting_text(value) for line in lines for value, epsilon in line if math.isinf(epsilon))
    if infinite:
        remarks.append("ε = ∞ everywhere" if all(map(math.isinf, every)) else f"ε = ∞ at {', '.join(infinite)}")
    if spans_a_decade(every):
        axes.set_yscale("log")
        plain_ticks(axes, "y")
    elif any(map(math.isfinite, every)):
        axes.set_ylim(bottom=0)
    else:
        axes.set_yticks([])
    if remarks:
        axes.set_title("; ".join(remarks), fontsize=10)


def _alike(line: Sequence[tuple[Any, float]], other: Sequence[tuple[Any, float]]) -> bool:
    return [value for value, _ in line] == [value for value, _ in other] and all(
        math.isclose(mine, its, rel_tol=1e-3) for (_, mine), (_, its) in zip(line, other, strict=True)
    )


def _distinct(values: Iterable[Any]) -> list[Any]:
    """In their order; they need not be hashable."""
    kept: list[Any] = []
    for value in values:
        if value not in kept:
            kept.append(value)
    return kept


class _Ticks:
    """Where the values of a key stand: as numbers, or side by side when they are words."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = list(values)
        self._numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)

    def place(self, value: Any) -> float:
        return float(value) if self._numbers else float(self._values.index(value))

    def aside(self, index: int, lines: int) -> float:
        """Words leave room for points beside one another."""
        return 0.0 if self._numbers else (index - (lines - 1) / 2) * min(0.12, 0.6 / lines)

    @property
    def joined(self) -> dict[str, Any]:
        """Between words there is nothing that a line could stand for."""
        return {} if self._numbers else {"linestyle": ""}

    def mark(self, axes: Axes) -> None:
        if self._numbers and spans_a_decade(self._values):
            axes.set_xscale("log")
        if not self._numbers or len(self._values) <= 12:
            labels = [setting_text(value) for value in self._values]
            axes.set_xticks([self.place(value) for value in self._values], labels)
            axes.xaxis.set_minor_locator(NullLocator())
            if max(map(len, labels)) * len(labels) > 60:
                axes.tick_params(axis="x", rotation=30)
        if not self._numbers:
            axes.set_xlim(-0.5, len(self._values) - 0.5)
