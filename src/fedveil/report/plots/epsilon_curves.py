"""A picture of ε over rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from fedveil.report.plots.figures import new_figure


def draw_epsilon_curves(path: Path, rounds: Sequence[int], curves: Mapping[str, Sequence[float]], title: str) -> Figure:
    """ε over rounds, one line per cell of the table that is finite; what is ∞ is named below."""
    figure = new_figure(8, 5)
    axes = figure.subplots()
    shown = {label: values for label, values in curves.items() if any(map(math.isfinite, values))}
    hidden = [label for label in curves if label not in shown]
    styles = ("-", "--", "-.", ":")
    for index, (label, values) in enumerate(shown.items()):
        axes.plot(rounds, values, styles[index % len(styles)], linewidth=2, label=label)
    axes.set(xlabel="rounds", ylabel="ε", title=title, yscale="log" if shown else "linear")
    axes.grid(alpha=0.3)
    if shown:
        axes.legend(frameon=False)
    if hidden:
        axes.annotate(f"ε = ∞: {', '.join(hidden)}", (0, -0.16), xycoords="axes fraction", fontsize=8)
    figure.savefig(path)
    return figure
