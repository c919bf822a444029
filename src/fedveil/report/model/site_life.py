"""What a site's page is made from: what was ever asked of it, paid and sent, and what is left, by its ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedveil.core.guarantee import Guarantee
from fedveil.report.model.verdict_sentence import CellRisk


@dataclass(frozen=True)
class BudgetFacts:
    """ε at δ that a policy allows, what was spent of it, and what is left."""

    allowed: float
    delta: float
    spent: float
    left: float


@dataclass(frozen=True)
class PlanAtSite:
    """One plan that somebody here agreed to. `size` is None where an older ledger did not say how much was sent."""

    name: str
    hash: str
    agreed: str
    withdrawn: str | None
    training: str  # what is trained, in words; empty where the plan can't be read any more
    coordinator: str
    others: tuple[str, ...]
    planned: int | None  # rounds
    asked: int  # rounds
    paid: int
    sent: int
    size: int | None
    budget: BudgetFacts


@dataclass(frozen=True)
class AnswerFacts:
    """One answer that was paid for; without a digest nothing of it has left. `noise` is what it was charged as."""

    plan: str
    round: int
    time: str
    digest: str | None
    size: int | None
    noise: str


@dataclass(frozen=True)
class SiteLife:
    """Everything that a page says about one site."""

    name: str
    records: int
    key: str
    cell: str  # that the policy speaks of
    lifetime: BudgetFacts
    rehearsal: bool
    plans: tuple[PlanAtSite, ...]
    answers: tuple[AnswerFacts, ...]
    guarantees: tuple[Guarantee, ...]
    risks: tuple[CellRisk, ...]
    course: tuple[tuple[float, float], ...]  # (answers paid for, ε for ever)
    refused: Mapping[str, int]  # questions by why they were refused, as far as the site's log goes back
    ledger: str
    receipts: str = ""  # the file with the signed receipts

    @property
    def sent(self) -> int:
        return sum(answer.digest is not None for answer in self.answers)

    @property
    def size(self) -> int | None:
        """Bytes that left; None where that is not known of all."""
        sizes = [answer.size for answer in self.answers if answer.digest is not None]
        return None if None in sizes else sum(size for size in sizes if size is not None)
