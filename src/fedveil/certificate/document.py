"""What a certificate says, as frozen dataclasses. The file is their fields, in `canonical_json`'s one form.

`attention` is the first field of the file: whatever must be known before a number is read. A cell certifies one of two
bounds: what was promised before the training, or what was spent. Each bound holds its composition in the accountant's
own types, and from these alone every ε and every risk is computed again. Bounds are in `stated_bounds`, what else is
stated in `stated_facts`.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from enum import StrEnum

from fedveil.certificate.stated_bounds import CertifiedCell, CertifiedSite
from fedveil.certificate.stated_facts import (
    CertifiedEvidence,
    PlanFacts,
    RandomnessFacts,
    RunDigests,
    Software,
    TrainingFacts,
)
from fedveil.core.errors import FedveilError
from fedveil.core.signing import PublicKey
from fedveil.core.types import Unit, View

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
    federation: PlanFacts | None
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
        if self.federation is not None:
            signing = {each.site for each in self.signatories}
            unsigned = sorted(known - signing)
            if not known or unsigned:
                raise FedveilError(f"in a federation every site signs; nobody does for {', '.join(unsigned) or 'any'}")
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
