"""What a page says of a federation beyond its run: the plan that all agreed to, and what each site did with it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ParticipantFacts:
    """One site as the coordinator knows it. `problem` is that of the last question it was asked, if there was one."""

    name: str
    records: int
    answers: int
    missed: tuple[int, ...]  # rounds in which it was asked and did not answer
    problem: str
    alone: float  # ε of one record against the server that the whole plan may cost it, counting on nobody else


@dataclass(frozen=True)
class FederationFacts:
    """A plan and its sites."""

    plan: str
    hash: str
    coordinator: str
    deadline: float
    quorum: int | None
    participants: tuple[ParticipantFacts, ...]
    delta: float
