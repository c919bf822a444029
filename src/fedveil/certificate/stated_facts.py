"""The facts that a certificate states beside its bounds: what was trained, by whom, with what, and what was tried."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fedveil.certificate.stated_bounds import Remark
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import CaveatKind
from fedveil.core.signing import PublicKey
from fedveil.core.types import Unit, View
from fedveil.core.verdicts import Verdict


@dataclass(frozen=True)
class CertifiedAudit:
    """What an audit tried and could have noticed. `noticed_noise` is the share of the declared noise below which it
    would have shown a lack with `noticed_with` probability; None where nothing was promised."""

    unit: Unit
    view: View
    verdict: Verdict
    canaries: int
    rounds: int
    confidence: float
    epsilon_shown: float
    epsilon_verified: float
    noticed_noise: float | None
    noticed_with: float | None
    said: str


@dataclass(frozen=True)
class CertifiedAttack:
    """An attack that tried to reconstruct records: on how many, and how often it came below its threshold."""

    view: View
    attack: str
    victims: int
    success_rate: float | None
    error: float | None
    blind_error: float | None


@dataclass(frozen=True)
class CertifiedEvidence:
    """What was tried against the run. An attack that fails proves nothing."""

    audits: tuple[CertifiedAudit, ...]
    attacks: tuple[CertifiedAttack, ...]
    said: str


@dataclass(frozen=True)
class RunDigests:
    """What the certificate is held to, SHA-256 each. `model` is None before there is one.

    `receipts` is salted with the ledger's own first head, so that nobody can compare a guess of who took part with it.
    """

    spec: str
    manifest: str
    model: str | None
    ledger: str
    ledger_entries: int
    receipts: str
    receipts_counted: int


@dataclass(frozen=True)
class TrainingFacts:
    """What was trained, on whose data, and how far it came."""

    method: str
    paper: str
    data: str
    described: tuple[str, ...]
    model: str
    parameters: int | None
    clients: int
    rounds_planned: int
    rounds_published: int
    state: str


class RandomnessSource(StrEnum):
    """Where the noise comes from."""

    SYSTEM = "operating-system"
    SEED = "seed"


@dataclass(frozen=True)
class RandomnessFacts:
    """Where randomness comes from, and how numbers that leave the machine are made."""

    source: RandomnessSource
    noise: str
    cells_per_deviation: int | None


@dataclass(frozen=True)
class Software:
    """The versions that trained, and the one that certified."""

    trained_with: tuple[tuple[str, str], ...]
    certified_with: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PlanFacts:
    """The plan that real sites agreed to, by its hash, whose questions they answered, and what that rests on.

    Every site has bounds of its own in the certificate, which count on nobody else, and signs for them.
    """

    plan: str
    name: str
    coordinator: str
    quorum: int | None
    deadline: float
    caveats: tuple[Remark, ...]

    def __post_init__(self) -> None:
        PublicKey.from_hex(self.coordinator)
        if len(self.plan) != 64 or not set(self.plan) <= set("0123456789abcdef"):
            raise FedveilError("a plan is named by 64 hexadecimal digits")
        if not 0 < self.deadline < 1e9 or (self.quorum is not None and self.quorum < 1):
            raise FedveilError("a quorum and a deadline are positive")
        if {remark.kind for remark in self.caveats} != set(FEDERATION_CAVEATS):
            raise FedveilError(f"a federation has the caveats {', '.join(FEDERATION_CAVEATS)}")


FEDERATION_CAVEATS = (CaveatKind.STATEMENTS, CaveatKind.QUORUM, CaveatKind.DEADLINE)
"""What is true of every federation, and must not be left out."""


def federation_facts(plan: str, *, name: str, coordinator: str, quorum: int | None, deadline: float) -> PlanFacts:
    """With the caveats in words."""
    least = "every site that is drawn must answer" if quorum is None else f"a round needs {quorum} answers"
    texts = {
        CaveatKind.STATEMENTS: "a site's receipts and its signature are statements of that site, and no proofs: a site"
        " that does not add its noise is not noticed by others, and harms its own records",
        CaveatKind.QUORUM: f"{least}; where noises of several sites are counted, no more than these",
        CaveatKind.DEADLINE: f"a site has {deadline:g} seconds to answer; whether and when it does is seen by the"
        " coordinator, is covered by no noise, and must not depend on records",
    }
    remarks = tuple(Remark(kind, texts[kind]) for kind in FEDERATION_CAVEATS)
    return PlanFacts(plan, name, coordinator, quorum, deadline, remarks)
