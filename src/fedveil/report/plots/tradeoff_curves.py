"""A picture of trade-off functions: the two kinds of error that any test must make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from fedveil.report.plots.figures import new_figure


def draw_tradeoffs(path: Path, title: str, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> Figure:
    """Curves (type I errors, type II errors) by name, with Id for comparison; the higher, the more private."""
    figure = new_figure(6.0, 5.2)
    axes = figure.add_subplot()
    axes.set(title=title, xlabel="type I error α", ylabel="type II error f(α)")
    axes.grid(alpha=0.25)
    axes.plot([0, 1], [1, 0], color="0.6", linestyle=":", label="Id: nothing can be told")
    for (name, (levels, errors)), dash in zip(
        curves.items(), ["-", "--", "-.", (0, (5, 1))] * len(curves), strict=False
    ):
        axes.plot(levels, errors, linestyle=dash, label=name)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend()
    figure.savefig(path)
    return figure
