"""A picture of trade-off functions: the two kinds of error that any test must make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from fedveil.core.risks import Risk
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


def draw_attack_rates(
    path: Path, title: str, false_positives: Sequence[float], true_positives: Sequence[float], risk: Risk
) -> Figure:
    """True over false positives of the best attack there can be, with the point where the difference is largest."""
    figure = new_figure(6.0, 5.6)
    axes = figure.add_subplot()
    axes.set(xlabel="false positives: said to be used, and was not", ylabel="true positives: said to be used, and was")
    axes.set_title(title, wrap=True, fontsize=9)
    axes.grid(alpha=0.25)
    axes.plot([0, 1], [0, 1], color="0.6", linestyle=":", label="a coin")
    axes.plot(false_positives, true_positives, label="the best attack at most")
    best, reached = risk.best, min(risk.best + risk.advantage, 1.0)
    axes.plot([best, best], [best, reached], color="0.4", linewidth=0.8)
    advantage, right = (math.ceil(1000 * share - 1e-6) / 10 for share in (risk.advantage, risk.right))
    label = f"advantage {advantage:.1f} %: right {right:.1f} times in 100"
    axes.plot([best], [reached], marker="o", linestyle="none", label=label)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend(loc="lower right")
    figure.savefig(path)
    return figure
