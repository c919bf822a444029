"""Reconstructions as a picture: truth, seed, what the adversary had after some iterations, and the result."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from fedveil.attacks.inversion.invert import Reconstruction
from fedveil.attacks.inversion.metrics import Score, matched
from fedveil.attacks.inversion.minimise import UPDATES
from fedveil.attacks.inversion.victims import Truth
from fedveil.core.errors import FedveilError

MOMENTS = (1, 2, 5, 10, 25, 50, 100, 200)
"""Iterations that are shown."""

MOST_PICTURED = 6


@dataclass
class Film:
    """Watches the first few victims and keeps what they look like after the iterations of `MOMENTS`."""

    victims: int
    frames: dict[int, dict[int, Tensor]] = field(default_factory=dict)  # iteration → victim → records

    def __call__(self, members: Tensor, updates: Tensor, inputs: Tensor) -> None:
        for victim, update, records in zip(members.tolist(), updates.tolist(), inputs, strict=True):
            if victim < self.victims and update % UPDATES == 0 and update // UPDATES in MOMENTS:
                self.frames.setdefault(update // UPDATES, {}).setdefault(victim, records.clone())


def rows_of(truth: Truth) -> int:
    """How many victims a picture has room for."""
    return max(MOST_PICTURED // truth.inputs.shape[1], 1)


def draw_reconstructions(
    path: Path, title: str, truth: Truth, reconstruction: Reconstruction, scored: Sequence[Score], film: Film
) -> None:
    """Write a PNG with one line per record of the filmed victims."""
    moments = [moment for moment in MOMENTS if moment in film.frames]
    lines = [(v, r) for v in range(min(film.victims, len(truth.clients))) for r in range(int(truth.counts[v]))]
    lines = lines[: max(MOST_PICTURED, int(truth.counts[0]))][:12]
    columns = ["truth", "seed", *(f"iteration {moment}" for moment in moments), "result"]
    table = truth.inputs.ndim < 4
    width, height = (1.9, 0.75) if table else (1.15, 1.25)
    size = (max(width * len(columns) + 1.2, 4.8), height * len(lines) + 0.95)
    figure = Figure(figsize=size, dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(lines), len(columns), squeeze=False)
    for line, (victim, record) in enumerate(lines):
        true = truth.inputs[victim, : int(truth.counts[victim])]
        guesses, originals = matched(reconstruction.inputs[victim], true)
        place = dict(zip(originals.tolist(), guesses.tolist(), strict=True)).get(record, 0)
        shown = [true[record], reconstruction.seeds[victim, place]]
        frames = [film.frames[moment].get(victim) for moment in moments]
        shown += [reconstruction.inputs[victim, place] if frame is None else frame[place] for frame in frames]
        shown += [reconstruction.inputs[victim, place]]
        limits = (float(true.min()), float(true.max())) if table else (0.0, 1.0)
        for axes, name, values in zip(grid[line], columns, shown, strict=True):
            _show(axes, values, limits)
            if line == 0:
                axes.set_title(name, fontsize=8)
        error = float((reconstruction.inputs[victim, place] - true[record]).square().mean().sqrt())
        grid[line][0].set_ylabel(f"client {scored[victim].client}", fontsize=7)
        grid[line][-1].set_xlabel(f"RMSE {error:.3g}", fontsize=7)
    figure.suptitle(title, fontsize=9, x=0.01, ha="left")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="png")
    except OSError as error:
        raise FedveilError(f"{path}: the picture can't be written ({error.strerror})") from None


@dataclass(frozen=True)
class Tile:
    """One record as a small PNG, beside what was made of it."""

    client: int
    rmse: float
    truth: bytes
    found: bytes


def tiles(truth: Truth, reconstruction: Reconstruction, scored: Sequence[Score]) -> list[Tile]:
    """The records of the first victims, as many as `draw` shows."""
    made = []
    for victim in range(min(rows_of(truth), len(truth.clients))):
        true = truth.inputs[victim, : int(truth.counts[victim])]
        for guess, original in zip(
            *(side.tolist() for side in matched(reconstruction.inputs[victim], true)), strict=True
        ):
            mine, its = reconstruction.inputs[victim, guess], true[original]
            limits = (float(true.min()), float(true.max())) if truth.inputs.ndim < 4 else (0.0, 1.0)
            error = float((mine - its).square().mean().sqrt())
            made.append(Tile(scored[victim].client, error, _png(its, limits), _png(mine, limits)))
    return made[:MOST_PICTURED]


def _png(values: Tensor, limits: tuple[float, float]) -> bytes:
    """One pixel per value; a reader enlarges it as it likes."""
    if values.ndim == 3:
        picture = Image.fromarray((_picture(values) * 255).round().astype(np.uint8))
    else:
        span = max(limits[1] - limits[0], 1e-12)
        shown = colormaps["viridis"](((_picture(values) - limits[0]) / span).clip(0, 1), bytes=True)
        picture = Image.fromarray(shown)
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def _show(axes: Axes, values: Tensor, limits: tuple[float, float]) -> None:
    axes.imshow(
        _picture(values), cmap="gray" if values.ndim == 3 else "viridis", vmin=limits[0], vmax=limits[1], aspect="auto"
    )
    if values.ndim == 3:
        axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])


def _picture(values: Tensor) -> NDArray[np.float64]:
    """Rows that are no pictures become a block of coloured cells."""
    if values.ndim == 3:
        shown = values.clamp(0, 1).permute(1, 2, 0) if values.shape[0] == 3 else values[0].clamp(0, 1)
        return shown.double().numpy()
    flat = values.flatten().double().numpy()
    wide = int(np.ceil(np.sqrt(flat.size * 3)))
    return np.pad(flat, (0, -flat.size % wide), constant_values=np.nan).reshape(-1, wide)
