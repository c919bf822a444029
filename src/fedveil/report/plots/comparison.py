"""Methods side by side: the task's main figure over rounds, and over ε."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedveil.report.plots.figures import (
    legend_below,
    line_style,
    marker_of,
    new_figure,
    plain_ticks,
    spans_a_decade,
    tidy,
)


def draw_comparison(
    path: Path, title: str, curves: Sequence[Mapping[str, Any]], delta: str, heading: str = "accuracy"
) -> Figure:
    """The task's main figure over rounds, and over ε: a method without a finite ε is a dashed line at its final value.

    A curve has `name`, `rounds`, `values`, `deviation`, `final` (None if it failed), `cell` (what ε speaks of; None
    without a guarantee), `epsilon` with `epsilon_values` at a few rounds, and `claimed`: the paper's ε, or None.
    """
    figure = new_figure(11.5, 5.2 + 0.2 * math.ceil(len(curves) / 2))
    figure.suptitle(title, fontsize=12)
    left, right = figure.subplots(1, 2, sharey=True)
    handles, labels = [], []
    for index, curve in enumerate(curves):
        if curve["final"] is None:
            continue
        look, marker = line_style(index), marker_of(index)
        _band(left, curve, look, marker, most=1.0 if heading == "accuracy" else math.inf)
        _over_epsilon(right, curve, look, marker)
        meaning = f"ε of {curve['cell']}" if curve["cell"] else "no guarantee (dashed on the right)"
        handles.append(Line2D([], [], linewidth=2, marker=marker, markersize=5, **look))
        labels.append(f"{curve['name']}: {meaning}")
    claims = [curve["claimed"] for curve in curves if curve["cell"] and curve["claimed"] is not None]
    if claims:
        handles.append(Line2D([], [], linestyle="", marker="o", markersize=8, color="0.35", markerfacecolor="none"))
        labels.append(f"hollow: final {heading} at the ε its paper claims")
    tidy(left, "rounds", heading, rounds=True)
    tidy(right, f"verified ε at δ = {delta}, promised after these rounds", "")
    _scale_epsilon(right, [*claims, *(value for curve in curves for value in curve["epsilon"])])
    legend_below(figure, handles, labels)
    figure.savefig(path)
    return figure


def _band(axes: Axes, curve: Mapping[str, Any], look: Mapping[str, Any], marker: str, most: float) -> None:
    rounds, values, deviation = curve["rounds"], curve["values"], curve["deviation"]
    every = max(1, len(rounds) // 12)
    axes.plot(rounds, values, linewidth=2, marker=marker, markersize=4.5, markevery=every, **look)
    if any(deviation):
        low = [max(value - spread, 0.0) for value, spread in zip(values, deviation, strict=True)]
        high = [min(value + spread, most) for value, spread in zip(values, deviation, strict=True)]
        axes.fill_between(rounds, low, high, color=look["color"], alpha=0.15, linewidth=0)


def _over_epsilon(axes: Axes, curve: Mapping[str, Any], look: Mapping[str, Any], marker: str) -> None:
    if not curve["cell"]:
        axes.axhline(curve["final"], color=look["color"], linestyle="--", linewidth=1.6)
        return
    axes.plot(curve["epsilon"], curve["epsilon_values"], linewidth=2, marker=marker, markersize=4.5, **look)
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
