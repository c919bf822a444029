"""What a reproduction is made of: cells, the work that each needs, and how its value is read off that work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fedveil.core.types import TableCell, Unit, View
from fedveil.papers.printed_tables import Printed, Value, printed_tables
from fedveil.runs.prepare import Prepared
from fedveil.studies.series import Done

Scale = Literal["small", "paper"]
ACCURACY = "accuracy"

RECORD: TableCell = (Unit.RECORD, View.SERVER)
CLIENT: TableCell = (Unit.CLIENT, View.RELEASED)
PEER: TableCell = (Unit.RECORD, View.PEER)


@dataclass(frozen=True)
class Stated:
    """A method as its paper states it: the verified ε of this setting is what another training is held to."""

    source: str
    overrides: Mapping[str, Any]
    place: TableCell = RECORD


@dataclass(frozen=True)
class Training:
    """A training, repeated with every seed. `budget` is the ε it is calibrated for, or whose verified ε that is."""

    source: str
    overrides: Mapping[str, Any]
    budget: float | Stated | None = None


@dataclass(frozen=True)
class Setting:
    """A method on its population, read without training it: sizes, and what is claimed and verified."""

    source: str
    overrides: Mapping[str, Any]


@dataclass(frozen=True)
class Leak:
    """An attack on what a view shows of the first local iteration."""

    source: str
    overrides: Mapping[str, Any]
    view: View
    options: Mapping[str, Any] = field(default_factory=dict)


Work = Training | Setting | Leak


@dataclass(frozen=True)
class Cell:
    """One place of a table. `read` takes the value from the work: a finished run, a setting, or an attack's result.

    `place` is the unit × view that the claimed and the verified ε of the cell speak of; None where ε says nothing
    about the value. `added` marks what the paper does not have, for comparison; `certified` a value that is a verified
    ε itself, which is never rounded down. `calibrated` cells have noise solved for an ε: they are named where a stated
    number of the same `population` is not reached.
    """

    row: str
    column: str
    work: Work
    read: Callable[..., Value]
    place: TableCell | None = None
    digits: int = 4
    added: bool = False
    certified: bool = False
    calibrated: bool = False
    population: str | None = None


ReadEvent = Callable[[Mapping[str, Any]], float | None]


def of_event(key: str, index: int | None = None, scale: float = 1.0) -> ReadEvent:
    """A number of a round's event, or one of its list, where it is there."""

    def read(event: Mapping[str, Any]) -> float | None:
        value = event.get(key)
        if value is None:
            return None
        return float(value if index is None else value[index]) * scale

    return read


@dataclass(frozen=True)
class FigureLine:
    """A line of a figure: what a training's rounds say, panel by panel."""

    name: str
    work: Training
    panels: Mapping[str, ReadEvent]
    key: str = "personal_accuracy"  # what its last value is read from, where a figure's table shows that


@dataclass(frozen=True)
class Shown:
    """An attack's result, and the picture of what it reconstructed."""

    row: str
    column: str
    found: Mapping[str, Any]
    picture: Path


@dataclass(frozen=True)
class Scene:
    """What a picture is drawn from, where it is not simply the table or the lines."""

    out: Path
    title: str
    scale: Scale
    lines: Sequence[tuple[FigureLine, Sequence[Done]]]
    leaks: Sequence[Shown]
    rows: Sequence[Mapping[str, Any]]
    prepared: Callable[[Setting], Prepared]


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """A table or figure of a paper, and how to make it again.

    `cells` and `lines` give the work in a scale. `scales` says in words what differs from the paper in each scale,
    `remarks` why a result differs, without numbers: those are measured. The picture shows the lines, or else the
    rows of the table that `drawn` names, joined where the columns are `ordered`; `draw` makes another one.
    """

    name: str
    title: str
    cells: Callable[[Scale], Sequence[Cell]] = lambda scale: ()
    lines: Callable[[Scale], Sequence[FigureLine]] = lambda scale: ()
    seeds: Mapping[Scale, int] = field(default_factory=lambda: {"small": 1, "paper": 3})
    scales: Mapping[Scale, str]
    remarks: tuple[str, ...] = ()
    draw: Callable[[Scene], None] | None = None
    value: str = ACCURACY
    drawn: str = "*"
    ordered: bool = False

    @property
    def printed(self) -> Printed:
        return printed_tables()[self.name]
