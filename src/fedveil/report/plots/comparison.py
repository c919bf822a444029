"""Pictures of several trainings, from plain lists. The palette can be told apart by colour-blind readers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator

from fedveil.report.terminal.run_tables import deltas_word, value_word

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Okabe and Ito's, without yellow, which is too faint for lines."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", (0, (7, 2)), (0, (7, 2, 1.5, 2)), (0, (2, 1.5)))
WORD_LIMIT = 92


def style(index: int) -> dict[str, Any]:
    """Colour and dash of the line number `index`: 28 that differ."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": DASHES[index // len(COLOURS) % len(DASHES)]}


def new_figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def tidy(axes: Axes, across: str, up: str, *, rounds: bool = False) -> None:
    """Labels, a light grid, no frame where nothing is read off."""
    axes.set(xlabel=across, ylabel=up)
    axes.grid(alpha=0.25, linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    if rounds:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def legend_below(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Outside the panels, so that it never lies over data; as many columns as the words leave room for."""
    short = [label if len(label) <= WORD_LIMIT else label[: WORD_LIMIT - 1] + "…" for label in labels]
    inches = 0.7 + 0.076 * max(map(len, short), default=0)  # a handle, and letters of 9 points
    columns = max(1, min(len(short), int(figure.get_figwidth() / inches)))
    if short:
        figure.legend(
            handles, short, loc="outside lower center", ncols=columns, frameon=False, fontsize=9, handlelength=3.2
        )


def spans_a_decade(values: Sequence[float]) -> bool:
    """Whether a logarithmic axis tells more: all positive, and the largest more than ten times the smallest."""
    finite = [value for value in values if math.isfinite(value)]
    return bool(finite) and min(finite) > 0 and max(finite) > 10 * min(finite)


def plain_ticks(axes: Axes, which: str) -> None:
    """0.5, 1, 10 in place of powers of ten, where the axis is short enough for that."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    if low > 1e-3 and high < 1e5:
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        if high / low > 300:
            axis.set_minor_formatter(NullFormatter())
        else:
            axis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")


# Methods side by side


def draw_comparison(path: Path, title: str, curves: Sequence[Mapping[str, Any]], delta: str) -> None:
    """`comparison_figure` as a file."""
    comparison_figure(title, curves, delta).savefig(path)


def comparison_figure(title: str, curves: Sequence[Mapping[str, Any]], delta: str) -> Figure:
    """Accuracy over rounds, and accuracy over ε: a method without a finite ε is a dashed line at its final accuracy.

    A curve has `name`, `rounds`, `accuracy`, `deviation`, `final` (None if it failed), `cell` (what ε speaks of; None
    without a guarantee), `epsilon` with `epsilon_accuracy` at a few rounds, and `claimed`: the paper's ε, or None.
    """
    figure = new_figure(11.5, 5.2 + 0.2 * math.ceil(len(curves) / 2))
    figure.suptitle(title, fontsize=12)
    left, right = figure.subplots(1, 2, sharey=True)
    handles, labels = [], []
    for index, curve in enumerate(curves):
        if curve["final"] is None:
            continue
        look, marker = style(index), MARKERS[index % len(MARKERS)]
        _band(left, curve, look, marker)
        _over_epsilon(right, curve, look, marker)
        words = f"ε of {curve['cell']}" if curve["cell"] else "no guarantee (dashed on the right)"
        handles.append(Line2D([], [], linewidth=2, marker=marker, markersize=5, **look))
        labels.append(f"{curve['name']}: {words}")
    claims = [curve["claimed"] for curve in curves if curve["cell"] and curve["claimed"] is not None]
    if claims:
        handles.append(Line2D([], [], linestyle="", marker="o", markersize=8, color="0.35", markerfacecolor="none"))
        labels.append("hollow: final accuracy at the ε its paper claims")
    tidy(left, "rounds", "accuracy", rounds=True)
    tidy(right, f"verified ε at δ = {delta}, promised after these rounds", "")
    _scale_epsilon(right, [*claims, *(value for curve in curves for value in curve["epsilon"])])
    legend_below(figure, handles, labels)
    return figure


def _band(axes: Axes, curve: Mapping[str, Any], look: Mapping[str, Any], marker: str) -> None:
    rounds, accuracy, deviation = curve["rounds"], curve["accuracy"], curve["deviation"]
    every = max(1, len(rounds) // 12)
    axes.plot(rounds, accuracy, linewidth=2, marker=marker, markersize=4.5, markevery=every, **look)
    if any(deviation):
        low = [max(value - spread, 0.0) for value, spread in zip(accuracy, deviation, strict=True)]
        high = [min(value + spread, 1.0) for value, spread in zip(accuracy, deviation, strict=True)]
        axes.fill_between(rounds, low, high, color=look["color"], alpha=0.15, linewidth=0)


def _over_epsilon(axes: Axes, curve: Mapping[str, Any], look: Mapping[str, Any], marker: str) -> None:
    if not curve["cell"]:
        axes.axhline(curve["final"], color=look["color"], linestyle="--", linewidth=1.6)
        return
    axes.plot(curve["epsilon"], curve["epsilon_accuracy"], linewidth=2, marker=marker, markersize=4.5, **look)
    if curve["claimed"] is not None:
        axes.plot(
            curve["claimed"], curve["final"], marker=marker, markersize=9, color=look["color"], markerfacecolor="none",
            markeredgewidth=1.6, linestyle="",
        )  # fmt: skip


def _scale_epsilon(axes: Axes, values: Sequence[float]) -> None:
    if not values:
        axes.set_xticks([])
        axes.set_xlabel("no method here has a finite ε")
    elif spans_a_decade(values):
        axes.set_xscale("log")
        plain_ticks(axes, "x")
    else:
        axes.set_xlim(left=0)


# A grid of settings


def draw_sweep(path: Path, title: str, keys: Sequence[str], rows: Sequence[Mapping[str, Any]], cell: str) -> None:
    """`sweep_figure` as a file."""
    sweep_figure(title, keys, rows, cell).savefig(path)


def sweep_figure(title: str, keys: Sequence[str], rows: Sequence[Mapping[str, Any]], cell: str) -> Figure:
    """Accuracy with error bars over the first key, one line per value of the second, and the promised ε beside it.

    A row has its `point` (key → value), `accuracy` and `deviation` (None where there is none), and its `epsilon`.
    """
    first, second = keys[0], keys[1] if len(keys) > 1 else None
    figure = new_figure(11.5, 4.9 if second is None else 5.4)
    figure.suptitle(title, fontsize=12)
    left, right = figure.subplots(1, 2)
    ticks = _Ticks(_distinct(row["point"][first] for row in rows))
    values = _distinct(row["point"][second] for row in rows) if second else [None]
    lines = [[row for row in rows if second is None or row["point"][second] == value] for value in values]
    looks = [
        {**style(index), **ticks.joined, "marker": MARKERS[index % len(MARKERS)], "linewidth": 2, "markersize": 6}
        for index in range(len(lines))
    ]
    for index, (line, look) in enumerate(zip(lines, looks, strict=True)):
        aside = ticks.aside(index, len(lines))
        finished = [row for row in line if row["accuracy"] is not None]
        places = [ticks.place(row["point"][first]) + aside for row in finished]
        spreads = [row["deviation"] or 0.0 for row in finished]
        left.errorbar(places, [row["accuracy"] for row in finished], yerr=spreads, capsize=4, elinewidth=1.3, **look)
    seeds = max(row["runs"] for row in rows)
    tidy(left, first, f"accuracy (mean ± deviation of {seeds} seeds)" if seeds > 1 else "accuracy")
    tidy(right, first, f"verified ε at δ = {deltas_word(rows)}, {cell}")
    _draw_promised(right, ticks, first, second, [[_promise(row, first, cell) for row in line] for line in lines], looks)
    for axes in (left, right):
        ticks.mark(axes)
    if second is not None:
        handles = [Line2D([], [], **look) for look in looks]
        legend_below(figure, handles, [f"{second} = {value_word(value)}" for value in values])
    return figure


def _promise(row: Mapping[str, Any], first: str, cell: str) -> tuple[Any, float]:
    value = row["epsilon"][cell]["promised"]
    return row["point"][first], math.inf if value == "inf" else float(value)


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
    infinite = _distinct(value_word(value) for line in lines for value, epsilon in line if math.isinf(epsilon))
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


def _distinct(values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


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
            words = [value_word(value) for value in self._values]
            axes.set_xticks([self.place(value) for value in self._values], words)
            axes.xaxis.set_minor_locator(NullLocator())
            if max(map(len, words)) * len(words) > 60:
                axes.tick_params(axis="x", rotation=30)
        if not self._numbers:
            axes.set_xlim(-0.5, len(self._values) - 0.5)
