"""How trainings went: one panel for each quantity in the events of their rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedveil.core.errors import FedveilError
from fedveil.report.plots.figures import (
    legend_below,
    line_style,
    marker_of,
    new_figure,
    plain_ticks,
    spans_a_decade,
    tidy,
)


@dataclass(frozen=True)
class Panel:
    """What is drawn together: `lines` are keys of the events, each with its line style and its label."""

    title: str
    up: str
    lines: tuple[tuple[str, Any, str], ...]  # key, line style, label
    total: bool = False  # add up over the rounds
    logarithmic: bool = False  # if the values span more than a decade


PANELS = (
    Panel(
        "Accuracy",
        "accuracy",
        (
            ("accuracy", "-", "global model, validation records"),
            ("majority", "-.", "always the commonest class"),
            ("own_accuracy", "--", "global model, clients' own test sets"),
            ("personal_accuracy", ":", "personal models, clients' own test sets"),
        ),
    ),
    Panel(
        "AUC and balanced accuracy",
        "share",
        (("auc", "-", "AUC"), ("balanced_accuracy", "--", "balanced accuracy")),
    ),
    Panel(
        "Log-loss and calibration",
        "validation records",
        (("log_loss", "-", "log-loss"), ("calibration_error", "--", "calibration error")),
    ),
    Panel(
        "Error",
        "in the number's unit",
        (
            ("rmse", "-", "global model: RMSE"),
            ("mae", "--", "global model: MAE"),
            ("own_mae", "-.", "global model, clients' own test sets: MAE"),
            ("personal_mae", ":", "personal models, clients' own test sets: MAE"),
        ),
        logarithmic=True,
    ),
    Panel("Training loss", "mean over clients", (("train_loss", "-", ""),), logarithmic=True),
    Panel(
        "Size of the updates",
        "L2 norm",
        (("update_norm", "-", "mean over clients"), ("bound", "--", "clipping bound")),
        logarithmic=True,
    ),
    Panel(
        "Between-client variance $V_c$",
        "mean over parameters of the\nvariance across clients",
        (("between_client_variance", "-", ""),),
        logarithmic=True,
    ),
    Panel(
        "Update scale $U_s$",
        "mean over parameters of the\nsquared mean update",
        (("update_scale", "-", ""),),
        logarithmic=True,
    ),
    Panel(
        "Sent by the clients so far",
        "megabytes",
        (("upload_bytes", "-", "as sent"), ("dense_bytes", "--", "if nothing were left out")),
        total=True,
    ),
)


def draw_training_panels(path: Path, title: str, runs: Sequence[Mapping[str, Any]]) -> Figure:
    """`runs` have a `name` and their `rounds`: events in order, whose keys may be missing or None.

    A panel is drawn where at least one run has something for it.
    """
    panels = [
        panel for panel in PANELS if any(_points(run["rounds"], key) for run in runs for key, _, _ in panel.lines)
    ]
    if not panels:
        raise FedveilError("nothing in the events of these runs can be drawn")
    columns = min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    figure = new_figure(4.4 * max(columns, 2), 3.5 * rows + 0.7 + 0.2 * len(runs))
    figure.suptitle(title, fontsize=12)
    grid = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    for axes, panel in zip(grid, panels, strict=False):
        _draw_panel(axes, panel, runs)
    handles = [
        Line2D([], [], linewidth=2, marker=marker_of(i), markersize=5, **line_style(i)) for i in range(len(runs))
    ]
    legend_below(figure, handles, [run["name"] for run in runs])
    figure.savefig(path)
    return figure


def _draw_panel(axes: Axes, panel: Panel, runs: Sequence[Mapping[str, Any]]) -> None:
    values: list[float] = []
    present = [line for line in panel.lines if any(_points(run["rounds"], line[0]) for run in runs)]
    for index, run in enumerate(runs):
        for key, dash, _ in present:
            points = _points(run["rounds"], key, panel.total)
            if not points:
                continue
            look = line_style(index) if dash == "-" else {**line_style(index), "linestyle": dash}
            marked: dict[str, Any] = {"marker": marker_of(index), "markersize": 4.5}
            marked["markevery"] = max(1, len(points) // 8)
            axes.plot(*zip(*points, strict=True), linewidth=1.8, **look, **(marked if dash == "-" else {}))
            values += [value for _, value in points]
    axes.set_title(panel.title, fontsize=10.5)
    tidy(axes, "rounds", panel.up, rounds=True)
    if panel.logarithmic and spans_a_decade(values):
        axes.set_yscale("log")
        plain_ticks(axes, "y")
    labels = [(dash, label) for _, dash, label in present if label]
    if len(present) > 1:
        lines = [Line2D([], [], color="0.3", linestyle=dash, linewidth=1.8) for dash, _ in labels]
        axes.legend(
            lines,
            [label for _, label in labels],
            loc="upper center",
            bbox_to_anchor=(0.5, -0.2),
            frameon=False,
            fontsize=8,
        )


def _points(rounds: Sequence[Mapping[str, Any]], key: str, total: bool = False) -> list[tuple[float, float]]:
    """(rounds done, value) where the value is there; added up and in megabytes if `total`."""
    known = [event for event in rounds if isinstance(event.get(key), int | float)]
    across = [float(event["round"] + 1) for event in known]
    values = [float(event[key]) for event in known]
    return list(zip(across, accumulate(value / 1e6 for value in values) if total else values, strict=True))
