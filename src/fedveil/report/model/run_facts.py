"""What a report is made from: plain facts about runs, gathered elsewhere. `None` always means: not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedveil.report.page.scale import Point

Cell = Mapping[str, Any]
"""One cell of the table of guarantees, as `--json` prints it."""


@dataclass(frozen=True)
class Status:
    """How far a run came. `begun` counts rounds that were paid for; `repeated` further attempts at a round."""

    state: str  # "finished", "unfinished" or "running"
    published: int
    planned: int
    begun: int | None = None
    repeated: int = 0


@dataclass(frozen=True)
class Clients:
    """Client by client: how many records, in how many rounds, at what cost, and how many rounds are left.

    `left` is None where nothing limits a client; `rule` then says so. `epsilon` is of `cell`, None where not known.
    """

    records: tuple[int, ...]
    rounds: tuple[int, ...]
    cell: str
    epsilon: tuple[float, ...] | None
    left: tuple[int, ...] | None
    rule: str


@dataclass(frozen=True)
class Theft:
    """A record of a victim and what was made of it, as PNG."""

    client: int
    rmse: float
    truth: bytes
    found: bytes


@dataclass(frozen=True)
class Attack:
    """An attack's result as it was printed, and pictures of a few records, which are training records."""

    told: Mapping[str, Any]
    thefts: tuple[Theft, ...] = ()


@dataclass(frozen=True)
class Run:
    """Everything that a report says about one run."""

    name: str
    method: str
    paper: str
    data: str
    data_words: str
    clients_words: str
    model: str
    parameters: int | None
    validation: int | None
    training_words: tuple[str, ...]
    status: Status
    delta: float
    seeded: bool | None
    promised: tuple[Cell, ...] | None
    spent: tuple[Cell, ...] | None
    claims: tuple[Cell, ...]
    rounds: tuple[Mapping[str, Any], ...]  # events, in order
    course: tuple[tuple[str, tuple[Point, ...]], ...]  # words of cells, (rounds done, ε)
    course_spent: bool  # else it is what was promised
    budget: tuple[float, str] | None  # ε, and of which cell
    clients: Clients | None
    clips: tuple[str, ...]  # what is clipped where, in words
    attacks: tuple[Attack, ...]
    audits: tuple[Mapping[str, Any], ...]
    problems: tuple[str, ...]
    spec: str
    command: str
    about: Mapping[str, str] = field(default_factory=dict)  # versions, when

    @property
    def cells(self) -> tuple[Cell, ...] | None:
        """What holds: spent where that is known, else promised."""
        return self.spent if self.spent is not None else self.promised

    @property
    def accuracy(self) -> float | None:
        """After the last round that was evaluated."""
        known = [event["accuracy"] for event in self.rounds if isinstance(event.get("accuracy"), int | float)]
        return float(known[-1]) if known else None


@dataclass(frozen=True)
class Options:
    """What the page may show."""

    pictures: bool = True
    release: bool = False
