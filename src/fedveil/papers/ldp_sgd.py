"""The clipping size in federated LDP-SGD: fixed, polynomial, adaptive quantile and adaptive median."""

from __future__ import annotations

from typing import Any

from fedveil.core.types import Unit, View
from fedveil.papers.printed_tables import printed_tables
from fedveil.papers.reproduction import Cell, Reproduction, Scale, Training
from fedveil.papers.values import final_accuracy

NAME = "ldp-sgd-clipping"


def _rule(row: str, every: int) -> tuple[str, dict[str, Any]]:
    """The method of a row, by the names that the paper gives its rules."""
    if row.startswith("clip"):
        return "ldp-sgd", {"upload.clip": float(row.removeprefix("clip"))}
    if row.startswith("poly("):
        start, power = row.removeprefix("poly(").split(")")
        bound = {"kind": "polynomial", "start": float(start), "power": float(power)}
        return "ldp-sgd-poly", {"upload.clip.bound": bound}
    if row.startswith("quantile("):
        start, target = row.removeprefix("quantile(").rstrip("%").split(")")
        bound = {"kind": "quantile", "start": float(start), "target": int(target) / 100}
        return "ldp-sgd-quantile", {"upload.clip.bound": bound}
    bound = {"kind": "histogram", "start": float(row.removeprefix("adaptive")), "every": every}
    return "ldp-sgd-median", {"upload.clip.bound": bound}


def _cells(scale: Scale) -> list[Cell]:
    shared: dict[str, Any] = {"data.name": "mnist", "stop.rounds": 3000, "evaluation.every": 50}
    every = 1000
    if scale == "small":
        shared |= {
            "data.clients": 50,
            "data.records": 100,
            "cohort.size": 25,
            "stop.rounds": 60,
            "evaluation.every": 10,
        }
        every = 20
    cells = []
    for row in printed_tables()[NAME].rows:
        source, setting = _rule(row, every)
        work = Training(source, shared | setting)
        cells.append(Cell(row, "accuracy", work, final_accuracy, (Unit.CLIENT, View.SERVER)))
    return cells


CLIPPING = Reproduction(
    name=NAME,
    title="Federated LDP-SGD: rules for the clipping size",
    cells=_cells,
    scales={
        "small": "25 of 50 clients of 100 records, 60 rounds; the median is renewed every 20 rounds",
        "paper": "100 of 1,000 clients of 500 records, 3,000 rounds; the median is renewed every 1,000 rounds",
    },
    remarks=(
        "The paper's data, network, noise and numbers of clients and rounds could not be read; those of the presets are"
        " used, so only the order of the rules can be compared. In its words: a small bound suits the beginning, the"
        " adaptive median learned most steadily at first and fell behind the fixed bounds later, and quantiles failed.",
        "One client's update against the server: every round of a client costs, which is why ε is so large.",
    ),
)


LDP_SGD_TABLES = (CLIPPING,)
