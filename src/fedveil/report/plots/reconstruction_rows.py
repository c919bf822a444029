"""Small pictures in named rows: what records looked like, and what an attacker made of them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from fedveil.core.errors import FedveilError


def draw_rows(path: Path, rows: Sequence[tuple[str, Sequence[bytes]]]) -> None:
    """Write a PNG with a row for each name and its small PNGs, as large as they fit."""
    columns = max(len(pictures) for _, pictures in rows)
    figure = Figure(figsize=(1.1 * columns + 0.4, 1.35 * len(rows)), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for line, (name, pictures) in zip(grid, rows, strict=True):
        line[0].set_title(name, fontsize=9, loc="left")
        for axes, picture in zip(line, pictures, strict=False):
            axes.imshow(Image.open(io.BytesIO(picture)), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="png")
    except OSError as error:
        raise FedveilError(f"{path}: the picture can't be written ({error.strerror})") from None
