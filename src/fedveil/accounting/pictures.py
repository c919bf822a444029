"""Pictures of trade-off curves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedveil.accounting import tradeoff
from fedveil.accounting.tradeoff import Curve


def _figure(title: str, across: str, up: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.0, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set(title=title, xlabel=across, ylabel=up)
    axes.grid(alpha=0.25)
    return figure, axes


def draw_curves(curves: Mapping[str, Curve], path: Path, title: str = "Trade-off between errors") -> Path:
    """Trade-off curves over one another, with Id for comparison; the higher, the more private."""
    figure, axes = _figure(title, "type I error α", "type II error f(α)")
    axes.plot([0, 1], [1, 0], color="0.6", linestyle=":", label="Id: nothing can be told")
    for (name, curve), style in zip(curves.items(), ["-", "--", "-.", (0, (5, 1))] * len(curves), strict=False):
        axes.plot(curve.levels, curve.errors, linestyle=style, label=name)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend()
    figure.savefig(path, dpi=150)
    return path


def draw_subsampled(path: Path, mean: float = 1.8, rate: float = 0.35) -> Path:
    """Figure 4 of the federated f-DP paper: f_p, its inverse, and C_p(f) below both, for f = G_1.8 and p = 0.35."""
    base = tradeoff.gaussian(mean)
    partial = tradeoff.mixed(base, rate)
    curves = {
        f"f = G({mean:g})": base,
        "f_p": partial,
        "inverse of f_p": partial.inverse(),
        f"C_p(f), p = {rate:g}": tradeoff.subsampled(base, rate),
    }
    return draw_curves(curves, path, f"Subsampling a trade-off function, p = {rate:g}")
