"""Zheng et al. 2021: Figures 1 to 6."""

from __future__ import annotations

from collections.abc import Callable

from fedveil.accounting import tradeoff
from fedveil.papers.prifedsync import GLOBAL, OWN, PANEL, SCALES, parameters, private, shared_settings
from fedveil.papers.printed_tables import number, printed_tables
from fedveil.papers.reproduction import (
    PEER,
    Cell,
    FigureLine,
    Reproduction,
    Scale,
    Scene,
    Setting,
    Training,
    of_event,
)
from fedveil.papers.result_page import line_points
from fedveil.papers.values import after
from fedveil.report.plots.reproduction_figures import draw_montage, draw_quantities, draw_shares
from fedveil.report.plots.tradeoff_curves import draw_tradeoffs


def _both(name: str, work: Training) -> list[FigureLine]:
    return [
        FigureLine(f"{name}, personal models", work, {PANEL: of_event(OWN)}),
        FigureLine(f"{name}, global model", work, {PANEL: of_event(GLOBAL)}, key=GLOBAL),
    ]


def _of_table(name: str, data: str, row: str, scale: Scale) -> Training:
    return private(data, *parameters(row), number(name, row, "R"), scale)


def _several(name: str, data: str, rows: tuple[str, ...], scale: Scale) -> list[FigureLine]:
    return [line for row in rows for line in _both(row, _of_table(name, data, row, scale))]


def _finals(lines: Callable[[Scale], list[FigureLine]]) -> Callable[[Scale], list[Cell]]:
    def cells(scale: Scale) -> list[Cell]:
        finals = []
        for line in lines(scale):
            finals.append(Cell(line.name, "final accuracy", line.work, after(None, line.key), PEER, added=True))
        return finals

    return cells


def _figure(
    number: int, title: str, data: str, lines: Callable[[Scale], list[FigureLine]], remark: str
) -> Reproduction:
    return Reproduction(
        name=f"prifedsync-figure-{number}",
        title=f"PriFedSync, Figure {number}: {title}",
        cells=_finals(lines),
        lines=lines,
        scales=SCALES[data],
        remarks=(remark,),
    )


def _figure_2(scale: Scale) -> list[FigureLine]:
    lines = []
    for row in printed_tables()["prifedsync-table-2"].rows:
        sigma, batch, steps = (float(word.partition("=")[2]) for word in row.split())
        stated = number("prifedsync-table-2", row, "R")
        work = private("mnist", 0.5, sigma, stated, scale, int(batch), int(steps))
        lines.append(FigureLine(row, work, {PANEL: of_event(OWN)}))
    return lines


_FIGURE_1 = _figure(
    1, "personal models against the global one on MNIST", "mnist",
    lambda scale: _several("prifedsync-table-1", "mnist", ("p=0.5 σ=1.0", "p=0.5 σ=0.75"), scale),
    "The paper: personal models are far better than the global one.",
)  # fmt: skip
_FIGURE_2 = _figure(
    2, "batch size on MNIST", "mnist", _figure_2, "The paper: a larger batch converges faster, at a larger μ."
)
_FIGURE_3 = _figure(
    3, "CIFAR-10, half of the clients a round", "cifar10",
    lambda scale: _several(
        "prifedsync-table-3", "cifar10", ("p=0.5 σ=1.0", "p=0.5 σ=0.75", "p=0.5 σ=0.5"), scale
    ),
    "The paper: accuracy falls with σ, and personal models stay ahead of the global one.",
)  # fmt: skip
_FIGURE_4 = Reproduction(
    name="prifedsync-figure-4",
    title="PriFedSync, Figure 4: the trade-off function of a subsampled mechanism",
    seeds={"small": 1, "paper": 1},
    scales={"small": "as stated: nothing is trained", "paper": "as stated: nothing is trained"},
    draw=lambda scene: _draw_curve(scene),
)
_FIGURE_5 = _figure(
    5, "share of clients on MNIST", "mnist",
    lambda scale: _several("prifedsync-table-1", "mnist", ("p=1.0 σ=0.75", "p=0.5 σ=0.75", "p=0.25 σ=0.75"), scale),
    "The paper: the larger the share of clients a round, the faster it converges.",
)  # fmt: skip


def _draw_curve(scene: Scene, mean: float = 1.8, rate: float = 0.35) -> None:
    """f_p, its inverse, and C_p(f) below both, for f = G_1.8 and p = 0.35."""
    base = tradeoff.gaussian(mean)
    partial = tradeoff.mixed(base, rate)
    curves = {
        f"f = G({mean:g})": base,
        "f_p": partial,
        "inverse of f_p": partial.inverse(),
        f"C_p(f), p = {rate:g}": tradeoff.subsampled(base, rate),
    }
    points = {name: (curve.levels.tolist(), curve.errors.tolist()) for name, curve in curves.items()}
    draw_tradeoffs(scene.out, f"Subsampling a trade-off function, p = {rate:g}", points)


def _figure_6(scale: Scale) -> list[FigureLine]:
    return _several("prifedsync-table-3", "cifar10", ("p=1.0 σ=1.0", "p=1.0 σ=0.75", "p=1.0 σ=0.5"), scale)


def _draw_figure_6(scene: Scene) -> None:
    """The labels of ten clients as bars and, where some runs are finished, their lines beside them."""
    prepared = scene.prepared(Setting("prifedsync", shared_settings("cifar10", scene.scale)))
    counts = prepared.partition.label_counts(prepared.dataset.train.labels, prepared.dataset.classes)[:10]
    shares = (counts / counts.sum(axis=1, keepdims=True)).tolist()
    labels, lines = (scene.out.with_stem(f"{scene.out.stem}-{part}") for part in ("labels", "courses"))
    draw_shares(labels, "Labels of ten clients", shares, prepared.dataset.class_names)
    points = [one for line, dones in scene.lines if dones for one in line_points(line, dones)]
    if points:
        draw_quantities(lines, "All clients in every round", points)
    parts = [("(a)", labels), *([("(b)", lines)] if points else [])]
    draw_montage(scene.out, scene.title, parts, len(parts))


_FIGURE_6 = Reproduction(
    name="prifedsync-figure-6",
    title="PriFedSync, Figure 6: labels of CIFAR-10 clients, and accuracy with all clients a round",
    cells=_finals(_figure_6),
    lines=_figure_6,
    scales=SCALES["cifar10"],
    draw=_draw_figure_6,
)


PRIFEDSYNC_FIGURES = (_FIGURE_1, _FIGURE_2, _FIGURE_3, _FIGURE_4, _FIGURE_5, _FIGURE_6)
