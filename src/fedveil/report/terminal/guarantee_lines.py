"""Guarantees in words and pictures, from the same tables that `--json` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedveil.core.words import LEAKED, rounded_up

Cell = Mapping[str, Any]


def table_lines(title: str, guarantees: Sequence[Cell]) -> list[str]:
    """One line per cell; caveats that all cells share are said once, below."""
    if all(cell["epsilon"] == "inf" for cell in guarantees):
        reasons = dict.fromkeys(cell["reason"] for cell in guarantees)
        return [f"{title}: nothing is guaranteed to anyone (ε = ∞ in every cell): {'; '.join(reasons)}"]
    shared = [caveat for caveat in guarantees[0]["caveats"] if all(caveat in cell["caveats"] for cell in guarantees)]
    lines = [f"{title} (δ = {guarantees[0]['delta']:g})"]
    for cell in guarantees:
        lines += [_line(cell, shared), *_secondary(cell)]
    return lines + [f"  · {caveat}" for caveat in shared]


def _line(cell: Cell, shared: Sequence[str]) -> str:
    if cell["epsilon"] == "inf":
        value, words = "ε = ∞", [cell["reason"]]
    else:
        own = [caveat for caveat in cell["caveats"] if caveat not in shared]
        leaks = [caveat for caveat in own if caveat.startswith(LEAKED)]
        value = f"ε = {rounded_up(cell['epsilon'])}"
        words = [*leaks, cell["composition"], cell["relation"], cell["accountant"]]
        words += [caveat for caveat in own if caveat not in leaks]
    return f"  {cell['unit']:7}× {cell['view']:10} {value:12} {'; '.join(words)}"


def _secondary(cell: Cell) -> list[str]:
    return [
        f"  {'':19} ε = {rounded_up(float(other['epsilon'])):8} {other['accountant']}: {other['note']}"
        for other in cell.get("secondary", ())
    ]


def client_lines(own: Mapping[str, Any]) -> list[str]:
    """Each client's own spending, as far as a few numbers can tell."""
    values = sorted(math.inf if value == "inf" else value for value in own["epsilon"])
    middle, untouched = values[len(values) // 2], sum(value == 0 for value in values)
    return [
        f"clients' own {own['unit']} × {own['view']}: least ε = {rounded_up(values[0])}, median {rounded_up(middle)},"
        f" most {rounded_up(values[-1])}; {untouched} of {len(values)} have spent nothing"
    ]


def claim_lines(claims: Sequence[Cell]) -> list[str]:
    """What the papers say, never without the difference."""
    return [
        f"claimed: {claim['unit']} × {claim['view']} ε = {_claimed(claim)} ({claim['source']}). {claim['difference']}"
        for claim in claims
    ]


def _claimed(claim: Cell) -> str:
    return "∞" if claim["epsilon"] == "inf" else f"{claim['epsilon']:.4g}"


def draw_curves(path: Path, rounds: Sequence[int], curves: Mapping[str, Sequence[float]], title: str) -> None:
    """ε over rounds, one line per cell of the table that is finite; what is ∞ is named below."""
    figure = Figure(figsize=(8, 5), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
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
