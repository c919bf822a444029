"""Seeing a partition: a picture of who holds which labels, and a few lines for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from fedveil.core.errors import FedveilError
from fedveil.data.partitions import Partition

# Up to here every client is a bar that can be told apart; beyond, clients become columns of a map.
_MOST_BARS = 40
_MOST_COLUMNS = 1000
_MOST_NAMED_LABELS = 20


@dataclass(frozen=True)
class PartitionSummary:
    """What a partition gave: (least, median, most) over clients, and how often records are shared."""

    clients: int
    records: tuple[int, float, int]
    labels: tuple[int, float, int]
    tests: tuple[int, float, int]
    max_copies: int
    mean_copies: float
    unused: int
    seed: int
    sites: tuple[tuple[str, int], ...] = ()  # names and records, where sites have names

    def lines(self) -> list[str]:
        """For the terminal."""
        if self.max_copies == 1:
            copies = "no record is held by two clients"
        else:
            copies = f"a record is held by {self.mean_copies:.4g} clients on average, {self.max_copies:,} at most"
        return [
            *(f"site               {name}: {records:,} records" for name, records in self.sites),
            f"clients            {self.clients:,}",
            f"records per client {_range(self.records)}",
            f"labels per client  {_range(self.labels)}",
            f"test records       {_range(self.tests)}",
            f"copies             {copies}",
            f"unused records     {self.unused:,}",
            f"seed               {self.seed}",
        ]


def summarise_partition(partition: Partition, labels: ArrayLike, classes: int) -> PartitionSummary:
    """The numbers behind the picture; `labels` are those of the training part."""
    counts = partition.label_counts(labels, classes)
    held = np.zeros(len(np.asarray(labels)), dtype=bool)
    held[partition.clients.rows] = True
    return PartitionSummary(
        clients=len(partition.clients),
        records=_spread(counts.sum(axis=1)),
        labels=_spread((counts > 0).sum(axis=1)),
        tests=_spread(np.array(partition.tests.sizes)),
        max_copies=partition.max_copies,
        mean_copies=partition.mean_copies,
        unused=int(np.count_nonzero(~held)),
        seed=partition.seed,
        sites=tuple(zip(partition.names, partition.clients.sizes, strict=True)) if partition.names else (),
    )


def draw_partition(
    partition: Partition, labels: ArrayLike, classes: int, path: Path, class_names: Sequence[str] = ()
) -> None:
    """Write a PNG: bars for a few clients, a map of labels × clients for many."""
    counts = partition.label_counts(labels, classes).astype(np.float64)
    names = list(class_names) or [str(label) for label in range(classes)]
    figure = Figure(figsize=(11, 5.2), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    main, side = figure.subplots(1, 2, width_ratios=(6, 1))
    if len(counts) <= _MOST_BARS:
        _draw_bars(main, counts, names, partition.names)
    else:
        _draw_map(figure, main, counts, names)
    _draw_totals(side, counts, names)
    figure.suptitle(_title(summarise_partition(partition, labels, classes)), fontsize=11, x=0.01, ha="left")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="png")
    except OSError as error:
        raise FedveilError(f"{path}: the picture can't be written ({error.strerror})") from None


def _draw_bars(axes: Axes, counts: NDArray[np.float64], names: list[str], sites: Sequence[str]) -> None:
    places = np.arange(len(counts))
    floor = np.zeros(len(counts))
    for label, colour in enumerate(_colours(len(names))):
        axes.bar(places, counts[:, label], bottom=floor, color=colour, width=0.85, linewidth=0)
        floor += counts[:, label]
    axes.set(xlabel="site" if sites else "client", ylabel="records", xlim=(-0.6, len(counts) - 0.4))
    if sites:
        axes.set_xticks(places, [_short(name) for name in sites], rotation=45, ha="right", fontsize=8)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=20, min_n_ticks=1))
    axes.spines[["top", "right"]].set_visible(False)


def _draw_map(figure: Figure, axes: Axes, counts: NDArray[np.float64], names: list[str]) -> None:
    """Clients with the same main label stand together: the pattern shows, and columns can be joined."""
    clients, classes = counts.shape
    middle = counts @ np.arange(classes) / np.maximum(counts.sum(axis=1), 1)
    ordered = counts[np.lexsort((middle, counts.argmax(axis=1)))]
    columns = min(clients, _MOST_COLUMNS)
    edges = np.linspace(0, clients, columns + 1).astype(np.int64)
    means = np.add.reduceat(ordered, edges[:-1], axis=0) / np.diff(edges)[:, None]
    palette = matplotlib.colormaps["YlGnBu"].with_extremes(under="white")
    image = axes.imshow(
        means.T,
        aspect="auto",
        interpolation="nearest",
        cmap=palette,
        vmin=1e-9,
        vmax=max(float(means.max()), 1.0),
        extent=(0, clients, classes - 0.5, -0.5),
    )
    axes.set(xlabel="clients, those with the same main label side by side", ylabel="label")
    _name_labels(axes, names)
    figure.colorbar(image, ax=axes, label="records of a client", pad=0.01, fraction=0.03, aspect=40)


def _draw_totals(axes: Axes, counts: NDArray[np.float64], names: list[str]) -> None:
    """How many records of each label all clients hold together; for the bars it is also their legend."""
    few = len(counts) <= _MOST_BARS
    axes.barh(np.arange(len(names)), counts.sum(axis=0), color=_colours(len(names)) if few else "0.6")
    axes.set(xlabel="records in all", ylim=(len(names) - 0.5, -0.5))
    if few:
        _name_labels(axes, names)
    else:  # the map beside it has the same rows
        axes.set_yticks([])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=2))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)


def _name_labels(axes: Axes, names: list[str]) -> None:
    shown = range(0, len(names), -(-len(names) // _MOST_NAMED_LABELS))
    axes.set_yticks(list(shown), [names[label] for label in shown], fontsize=8)


def _colours(classes: int) -> list[tuple[float, ...]]:
    if classes <= 10:
        return [matplotlib.colormaps["tab10"](label) for label in range(classes)]
    return [matplotlib.colormaps["turbo"](label / (classes - 1)) for label in range(classes)]


def _title(numbers: PartitionSummary) -> str:
    shared = (
        "no record at two clients"
        if numbers.max_copies == 1
        else f"a record is at {numbers.mean_copies:.4g} clients on average"
    )
    return (
        f"{numbers.clients:,} clients · records per client {_range(numbers.records)} · "
        f"labels per client {_range(numbers.labels)} · {shared}"
    )


def _short(name: str) -> str:
    """A name as a label; a dollar would begin a formula."""
    return (name if len(name) <= 20 else f"{name[:19]}…").replace("$", r"\$")


def _spread(values: NDArray[np.int64]) -> tuple[int, float, int]:
    return int(values.min()), float(np.median(values)), int(values.max())


def _range(spread: tuple[int, float, int]) -> str:
    least, median, most = spread
    return f"{least:,}" if least == most else f"{least:,} to {most:,} (median {median:,g})"
