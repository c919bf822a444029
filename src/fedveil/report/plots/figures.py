"""What all pictures share: a palette that colour-blind readers can tell apart, light axes, a legend below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

LINE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Okabe and Ito's, without yellow, which is too faint for lines."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINE_DASHES: tuple[Any, ...] = ("-", (0, (7, 2)), (0, (7, 2, 1.5, 2)), (0, (2, 1.5)))
LONGEST_LABEL = 92


def line_style(index: int) -> dict[str, Any]:
    """Colour and dash of the line number `index`: 28 that differ."""
    return {
        "color": LINE_COLOURS[index % len(LINE_COLOURS)],
        "linestyle": LINE_DASHES[index // len(LINE_COLOURS) % len(LINE_DASHES)],
    }


def marker_of(index: int) -> str:
    return MARKERS[index % len(MARKERS)]


def new_figure(width: float, height: float) -> Figure:
    """Empty, of that many inches; it needs no screen."""
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
    """Outside the panels, so that it never lies over data; as many columns as the labels leave room for."""
    short = [label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…" for label in labels]
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
