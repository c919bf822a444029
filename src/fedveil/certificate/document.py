"""What a certificate says, as frozen dataclasses. The file is their fields, in `canonical_json`'s one form.

`attention` is the first field of the file: whatever must be known before a number is read. A cell certifies one of two
bounds: what was promised before the training, or what was spent. Each bound holds its composition in the accountant's
own types, and from these alone every ε and every risk is computed again.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from enum import StrEnum

from fedveil.accounting.compose import Term
from fedveil.core.checks import check_delta
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import CaveatKind, Relation, cell_name
from fedveil.core.signing import PublicKey
from fedveil.core.types import Unit, View
from fedveil.core.verdicts import Verdict

FORMAT_NAME, FORMAT_VERSION = "fedveil certificate", 1
"""Raised with every change of the fields, of the meaning of one, or of the sentences that are checked."""

MOST_ENTRIES = 500


class NoticeKind(StrEnum):
    """What must be known before any number. Those that leave nothing to rely on come first."""

    SEEDED = "seeded"  # the noise can be repeated, and so taken off again
    BROKEN = "broken"  # an audit has contradicted the promise
    NOT_PRIVATE = "not-private"  # a caveat voids an ε as it stands
    NOTHING_PROMISED = "nothing-promised"  # every ε is ∞
    UNFINISHED = "unfinished"  # the training may go on, and will cost more
    DIVERGED = "diverged"  # the model is worse than any guess
    UNREAD = "unread"  # something of the run could not be read

    @property
    def voids(self) -> bool:
        """Whether nothing of the certificate may be relied on."""
        return self in (NoticeKind.SEEDED, NoticeKind.BROKEN, NoticeKind.NOT_PRIVATE, NoticeKind.NOTHING_PROMISED)


@dataclass(frozen=True)
class Notice:
    """One thing that must be known first."""

    kind: NoticeKind
    text: str


@dataclass(frozen=True)
class Remark:
    """A caveat of a cell: what its ε rests on or leaves out."""

    kind: CaveatKind
    text: str


@dataclass(frozen=True)
class RiskFigures:
    """What an attacker gets at most, to whom both answers were as likely before.

    `advantage` is the largest difference of true-positive and false-positive rate, `right_guess` is 1/2 + advantage/2.
    `rates` are pairs: a false-positive rate, and the true-positive rate that goes with it at most. `mean` is μ where
    the trade-off is that of a Gaussian.
    """

    advantage: float
    right_guess: float
    rates: tuple[tuple[float, float], ...]
    mean: float | None

    def __post_init__(self) -> None:
        shares = (self.advantage, self.right_guess, *(share for pair in self.rates for share in pair))
        if not all(0 <= share <= 1 for share in shares) or not 0 <= (self.mean or 0.0) < math.inf:
            raise FedveilError("a rate lies between 0 and 1")


@dataclass(frozen=True)
class CertifiedBound:
    """ε of a composition at the cell's δ, and what it means. Where ε is ∞ there is no composition, and a reason."""

    epsilon: float
    relation: Relation
    accountant: str
    composition: tuple[Term, ...] | None
    described: str
    risk: RiskFigures | None
    reason: str

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise FedveilError(f"ε must not be negative: {self.epsilon}")
        if math.isinf(self.epsilon) != bool(self.reason):
            raise FedveilError("ε is ∞ exactly where a reason says why")
        if math.isfinite(self.epsilon) and (self.composition is None or self.risk is None):
            raise FedveilError("a finite ε has a composition and a risk")


@dataclass(frozen=True)
class CertifiedClaim:
    """A paper's own number for the cell, which is no guarantee, and why it is another one."""

    epsilon: float
    delta: float
    source: str
    difference: str


class Basis(StrEnum):
    """Which of a cell's bounds is certified."""

    PROMISED = "promised"
    SPENT = "spent"


@dataclass(frozen=True)
class CertifiedCell:
    """One unit against one view. `spent` is left out where it would tell who took part (for release).

    `copies` is the bound of all copies of a record together, where several clients hold one. `beside` are bounds under
    other relations, which say less and never stand in the cell's place.
    """

    unit: Unit
    view: View
    delta: float
    basis: Basis
    promised: CertifiedBound
    spent: CertifiedBound | None
    copies: CertifiedBound | None
    beside: tuple[CertifiedBound, ...]
    claimed: CertifiedClaim | None
    caveats: tuple[Remark, ...]

    def __post_init__(self) -> None:
        check_delta(self.delta)
        if self.basis is Basis.SPENT and self.spent is None:
            raise FedveilError("what was spent is certified, and is not stated")

    @property
    def name(self) -> str:
        return cell_name(self.unit, self.view)

    @property
    def certified(self) -> CertifiedBound:
        return self.spent if self.basis is Basis.SPENT and self.spent is not None else self.promised

    @property
    def bounds(self) -> tuple[CertifiedBound, ...]:
        return tuple(each for each in (self.promised, self.spent, self.copies, *self.beside) if each is not None)


@dataclass(frozen=True)
class SiteBound:
    """One site's own bound in a cell."""

    unit: Unit
    view: View
    bound: CertifiedBound


@dataclass(frozen=True)
class CertifiedSite:
    """A site by name, with its own bounds."""

    name: str
    records: int
    bounds: tuple[SiteBound, ...]


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
class Signatory:
    """Who signs, with which key, and for what: a site for its own bounds, everybody else for the whole."""

    name: str
    key: str
    site: str | None

    def __post_init__(self) -> None:
        PublicKey.from_hex(self.key)
        if not self.name.strip() or len(self.name) > 200 or not self.name.isprintable():
            raise FedveilError("a signatory has a name of one line")


@dataclass(frozen=True)
class Certificate:
    """All that is signed."""

    attention: tuple[Notice, ...]
    verdict: str
    cells: tuple[CertifiedCell, ...]
    sites: tuple[CertifiedSite, ...]
    training: TrainingFacts
    digests: RunDigests
    trust: tuple[str, ...]
    not_covered: tuple[str, ...]
    randomness: RandomnessFacts
    evidence: CertifiedEvidence
    software: Software
    justification: str
    signatories: tuple[Signatory, ...]
    created: str
    expires: str
    for_release: bool
    format: str
    version: int

    def __post_init__(self) -> None:
        cells = [(cell.unit, cell.view) for cell in self.cells]
        if cells != [(unit, view) for unit in Unit for view in View]:
            raise FedveilError("a certificate has every unit and view once, in order")
        for name, listed in (("sites", self.sites), ("signatories", self.signatories)):
            if len(listed) > MOST_ENTRIES or len({each.name for each in listed}) < len(listed):
                raise FedveilError(f"{name} are too many, or two have one name")
        if not self.signatories or self.signatories[0].site is not None:
            raise FedveilError("the first signatory signs for the whole")
        known = {site.name for site in self.sites}
        if any(each.site is not None and each.site not in known for each in self.signatories):
            raise FedveilError("a signatory signs for a site that is not among the sites")
        if len({each.key for each in self.signatories}) < len(self.signatories):
            raise FedveilError("two signatories have one key")
        if not self.day("created") <= self.day("expires"):
            raise FedveilError("it expires before it is made")

    def day(self, field: str) -> datetime.date:
        return datetime.date.fromisoformat(getattr(self, field)[:10])


@dataclass(frozen=True)
class SignatureEntry:
    """One signature, by the key of a signatory."""

    key: str
    signature: str


@dataclass(frozen=True)
class SignedCertificate:
    """The file."""

    certificate: Certificate
    signatures: tuple[SignatureEntry, ...]
