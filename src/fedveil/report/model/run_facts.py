"""What a report is made from: plain facts about runs, gathered elsewhere. `None` always means: not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fedveil.core.guarantee import Claim, Guarantee
from fedveil.core.scores import FIGURES, Scores
from fedveil.core.tasks import Task
from fedveil.report.model.evidence_facts import AttackFacts, AuditFacts
from fedveil.report.model.federation_facts import FederationFacts
from fedveil.report.model.verdict_sentence import CellRisk

ENDED_EARLY = "nobody could take part any more (a limit or a budget)"
"""Why a run ended before its last round."""

RunState = Literal["finished", "unfinished", "running"]


@dataclass(frozen=True)
class Status:
    """How far a run came. `begun` counts rounds that were paid for; `repeated` further attempts at a round."""

    state: RunState
    published: int
    planned: int
    begun: int | None = None
    repeated: int = 0


@dataclass(frozen=True)
class Clients:
    """Client by client: how many records, in how many rounds, at what cost, and how many rounds are left.

    `left` is None where nothing limits a client; `rule` then says so. `epsilon` is of `cell`, None where not known, and
    `promised` likewise. `names` are those of sites.
    """

    records: tuple[int, ...]
    rounds: tuple[int, ...]
    cell: str
    epsilon: tuple[float, ...] | None
    left: tuple[int, ...] | None
    rule: str
    names: tuple[str, ...] = ()
    promised: tuple[float, ...] | None = None

    @property
    def word(self) -> str:
        """What one of them is called."""
        return "site" if self.names else "client"

    def name(self, client: int) -> str:
        return self.names[client] if self.names else f"client {client}"


@dataclass(frozen=True)
class EpsilonLine:
    """ε over rounds of the cells that `name` names: (rounds done, ε), in order."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class CertificateFacts:
    """What the check of a run's signed certificate said, and whether it can be relied on."""

    sound: bool
    said: str


@dataclass(frozen=True)
class SiteFacts:
    """One site by name: how many records it holds, and its own cells of one record, where they are known."""

    name: str
    records: int
    risks: tuple[CellRisk, ...]
    epsilons: tuple[float, ...]


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
    diverged: bool
    promised: tuple[Guarantee, ...] | None
    spent: tuple[Guarantee, ...] | None
    claims: tuple[Claim, ...]
    rounds: tuple[Mapping[str, Any], ...]  # events, in order
    epsilon_lines: tuple[EpsilonLine, ...]
    epsilon_lines_spent: bool  # else they are what was promised
    budget: tuple[float, str] | None  # ε, and of which cell
    clients: Clients | None
    clips: tuple[str, ...]  # what is clipped where, in words
    attacks: tuple[AttackFacts, ...]
    audits: tuple[AuditFacts, ...]
    problems: tuple[str, ...]
    spec: str
    command: str
    environment: Mapping[str, str] = field(default_factory=dict)  # when it began, on what, with which versions
    risks: tuple[CellRisk, ...] = ()  # of the cells in `guarantees`, where their compositions are known
    sites: tuple[SiteFacts, ...] = ()
    trust: tuple[str, ...] = ()  # whom the guarantees rely on, and for what
    not_covered: tuple[str, ...] = ()
    certificate: CertificateFacts | None = None
    task: Task | None = None  # older runs did not write it down
    scores: Scores | None = None  # of the last model, where the run is finished
    federation: FederationFacts | None = None  # where clients were real sites

    @property
    def guarantees(self) -> tuple[Guarantee, ...] | None:
        """What holds: spent where that is known, else promised."""
        return self.spent if self.spent is not None else self.promised

    @property
    def figures(self) -> Mapping[str, float]:
        """How good the model is after the last round that was evaluated; what is not known is left out."""
        keys = (*FIGURES, "majority")
        measured = ({key: event[key] for key in keys if _known(event, key)} for event in reversed(self.rounds))
        return next(filter(None, measured), {})


def _known(event: Mapping[str, Any], key: str) -> bool:
    return isinstance(event.get(key), int | float) and not isinstance(event[key], bool)


@dataclass(frozen=True)
class Options:
    """What the page may show."""

    pictures: bool = True
    release: bool = False
