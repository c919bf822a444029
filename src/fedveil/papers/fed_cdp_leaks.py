"""Wei et al. 2021: what attacks make of gradients. Table VII, Figures 4 and 5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedveil.core.types import View
from fedveil.papers.reproduction import CLIENT, RECORD, Cell, Leak, Reproduction, Scale, Scene, Training
from fedveil.papers.values import final_accuracy, leak_value, succeeded
from fedveil.report.plots.reproduction_figures import draw_montage, draw_quantities
from fedveil.zoo import named

ATTACKED_METHODS = {
    "non-private": "fedavg",
    "Fed-SDP": "fed-sdp-client",
    "Fed-CDP": "fed-cdp",
    "Fed-CDP(decay)": "fed-cdp-decay",
}
LEAK_TYPES = {"type 0&1": View.SERVER, "type 2": View.ON_DEVICE}
PRINTED = {
    "succeed": succeeded,
    "reconstruction distance": leak_value("rmse"),
    "attack iteration": leak_value("iterations"),
}
STRONGEST_SHOWN = (
    "The strongest of several attackers is shown. On noisy gradients it knows σ, weighs the noise against a prior and"
    " stops at once, so its distance is near that of a constant guess; the paper's goes on and ends further away. A"
    " smaller distance than the paper's is therefore not a leak: see success, and the page on leakage."
)
SUCCEED = (
    "Succeed: the share of victims whose records are reconstructed to within the RMSE that `fedveil attack` counts as"
    " success, and Y for more than half; the paper calls larger distances a success, too."
)
AT_PAPER_SCALE = {"mnist": "balanced", "lfw": "smooth"}
"""Attackers of whole updates without noise: the stronger of the two on a small scale. Each takes an hour or so."""
ONE_OF_TWO = (
    "At the paper's scale updates without noise meet one attacker, that which is the stronger on the small scale:"
    f" `{AT_PAPER_SCALE['mnist']}` on MNIST, `{AT_PAPER_SCALE['lfw']}` on LFW."
)
NOISED_ON_CLIENT = (
    "Fed-SDP here clips and noises on the client (`fed-sdp-client`); noise at the server (`fed-sdp`) shows all three"
    " views what the non-private method shows."
)


EVERY_ROW_NOISED = (
    "Type 2 meets Fed-CDP with `example.each_row`: every row in the device's memory carries its own noise. Without it"
    " the noise is drawn on a batch's sum, and the rows in memory are clean."
)


def _leak(source: str, overrides: Mapping[str, Any], view: View, effort: Mapping[str, Any]) -> Leak:
    """An attack on a method; where rows are seen, those with the noise of a row carry it."""
    example = named(source).example
    rows = view is View.ON_DEVICE and example is not None and example.noise == "row"
    return Leak(source, {**overrides, "example.each_row": True} if rows else overrides, view, effort)


def _effort(scale: Scale) -> dict[str, Any]:
    """At the paper's scale one try only, as in the paper: with others, 300 iterations would not be the most."""
    if scale == "paper":
        return {"victims": 100, "iterations": 300, "changes": {"restarts": 0}}
    return {"victims": 4, "iterations": 40}


def _table_7(scale: Scale) -> list[Cell]:
    cells = []
    for data, name in (("MNIST", "mnist"), ("LFW", "lfw")):
        for kind, view in LEAK_TYPES.items():
            for method, source in ATTACKED_METHODS.items():
                effort = _effort(scale)
                if scale == "paper" and source == "fedavg" and view is View.SERVER:
                    effort["attack"] = AT_PAPER_SCALE[name]
                work = _leak(source, {"data.name": name}, view, effort)
                cells += [
                    Cell(f"{data} {row}", f"{kind} {method}", work, read, digits=0 if "iteration" in row else 4)
                    for row, read in PRINTED.items()
                ]
    return cells


_TABLE_7 = Reproduction(
    name="fed-cdp-table-7",
    title="Fed-CDP, Table VII: how well gradient leakage attacks do",
    cells=_table_7,
    seeds={"small": 1, "paper": 1},
    scales={
        "small": "4 clients, at most 40 iterations (of 20 updates each)",
        "paper": "100 clients, at most 300 iterations (of 20 updates each)",
    },
    remarks=(SUCCEED, STRONGEST_SHOWN, ONE_OF_TWO, NOISED_ON_CLIENT, EVERY_ROW_NOISED),
    value="reconstruction distance (RMSE)",
    drawn="*distance",
)


def _figure_4(scale: Scale) -> list[Cell]:
    effort = _effort(scale) | {"victims": 4}
    methods = {
        "non-private": "fedavg",
        "DSSGD": "dssgd",
        **{name: ATTACKED_METHODS[name] for name in list(ATTACKED_METHODS)[1:]},
    }
    return [
        Cell(method, kind, _leak(source, {"data.name": "lfw"}, view, effort), leak_value("rmse"), added=True)
        for method, source in methods.items()
        for kind, view in LEAK_TYPES.items()
    ]


def _draw_pictures(scene: Scene) -> None:
    columns = len({shown.column for shown in scene.leaks})
    pictures = [(f"{shown.row}, {shown.column}", shown.picture) for shown in scene.leaks]
    if pictures:
        draw_montage(scene.out, scene.title, pictures, columns)


_FIGURE_4 = Reproduction(
    name="fed-cdp-figure-4",
    title="Fed-CDP, Figure 4: reconstructions from LFW gradients",
    cells=_figure_4,
    seeds={"small": 1, "paper": 1},
    scales={"small": "4 clients, at most 40 iterations", "paper": "4 clients, at most 300 iterations"},
    remarks=(
        "The table has the distance (RMSE) of the reconstructions.",
        STRONGEST_SHOWN,
        NOISED_ON_CLIENT,
        EVERY_ROW_NOISED,
    ),
    draw=_draw_pictures,
    value="reconstruction distance (RMSE)",
)

RATIOS = (0.0, 0.1, 0.3, 0.5)


def _figure_5(scale: Scale) -> list[Cell]:
    cells = []
    small = {"data.clients": 100, "cohort.size": 20, "stop.rounds": 15, "local.steps": 40}
    train: dict[str, Any] = {"evaluation.every": 5, **(small if scale == "small" else {})}
    for method, source in (ATTACKED_METHODS | {"Fed-SDP": "fed-sdp"}).items():
        for ratio in RATIOS:
            compression: dict[str, Any] = {"compress": {"kind": "prune", "ratio": ratio}} if ratio else {}
            place = CLIENT if source == "fed-sdp" else RECORD
            cells.append(
                Cell(
                    method,
                    f"accuracy, {ratio:.0%}",
                    Training(source, train | compression),
                    final_accuracy,
                    place,
                    added=True,
                )
            )
            effort = _effort(scale) | ({"victims": 50} if scale == "paper" else {})
            leak = _leak(source, {"batch.size": 1, **compression}, View.SERVER, effort)
            cells.append(Cell(method, f"distance, {ratio:.0%}", leak, leak_value("rmse"), added=True))
    return cells


def _draw_figure_5(scene: Scene) -> None:
    """Accuracy, and the distance of the reconstructions, over the share that is not sent."""
    lines = []
    for panel, label in (("accuracy", "accuracy"), ("distance", "reconstruction distance (RMSE)")):
        for method in dict.fromkeys(row["row"] for row in scene.rows):
            mine = [row for row in scene.rows if row["row"] == method and row["column"].startswith(panel)]
            measured = [row for row in mine if isinstance(row["ours"], int | float)]
            lines.append(
                {
                    "name": method,
                    "panel": label,
                    "rounds": [int(row["column"].rpartition(" ")[2].rstrip("%")) for row in measured],
                    "values": [row["ours"] for row in measured],
                    "deviation": [row["deviation"] or 0.0 for row in measured],
                }
            )
    if any(line["values"] for line in lines):
        draw_quantities(scene.out, scene.title, lines, across="share of the update that is not sent, %")


_FIGURE_5 = Reproduction(
    name="fed-cdp-figure-5",
    title="Fed-CDP, Figure 5: accuracy and leakage when the smallest entries of an update are not sent",
    cells=_figure_5,
    seeds={"small": 1, "paper": 3},
    scales={
        "small": "20 of 100 clients, 15 rounds of 40 local iterations; 4 victims, at most 40 iterations",
        "paper": "100 of 1,000 clients, 100 rounds; 50 victims, at most 300 iterations",
    },
    remarks=(
        "The share of the entries that is pruned stands in the columns; the distance (RMSE) is that of an attack on the"
        " pruned update of one record. Fed-SDP adds its noise at the server, so what is sent is not noised.",
        STRONGEST_SHOWN,
    ),
    draw=_draw_figure_5,
)


FED_CDP_LEAKS = (_TABLE_7, _FIGURE_4, _FIGURE_5)
