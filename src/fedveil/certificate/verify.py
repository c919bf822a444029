"""The check of a certificate: its form, its signatures, its date, and every ε computed again from its composition.

What is checked stands in the file alone. It needs neither records nor a network nor PyTorch. A run directory can be
held to it as well. Whatever does not fit is a `CertificateRefused` of one line.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedveil.accounting.compose import composition, describe
from fedveil.certificate.bound_figures import recompute, understated
from fedveil.certificate.canonical_json import LARGEST_FILE, NotCanonical, file_form, read_file_form
from fedveil.certificate.document import FORMAT_NAME, FORMAT_VERSION, Certificate, SignedCertificate
from fedveil.certificate.run_digests import digest_problem
from fedveil.certificate.signatories import (
    certificate_digest,
    missing_signatories,
    sign_certificate,
    signature_problem,
)
from fedveil.certificate.stated_bounds import CertifiedBound, CertifiedCell, CertifiedSite
from fedveil.certificate.statements import certificate_verdict
from fedveil.certificate.typed_reading import WrongValue, as_plain, typed
from fedveil.core.atomic import disk_errors, write_whole
from fedveil.core.errors import FedveilError
from fedveil.core.signing import PublicKey, SigningKey
from fedveil.core.types import View

MOST_COMPOSITIONS = 200
"""More distinct ones are refused: computing them would take longer than anybody waits for a stranger's file."""


class CertificateRefused(FedveilError):
    """A certificate that does not hold, and why."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: does NOT hold: {problem}")
        self.path, self.problem = path, problem

    def __reduce__(self) -> tuple[type[CertificateRefused], tuple[Path, str]]:
        return CertificateRefused, (self.path, self.problem)


@dataclass(frozen=True)
class Verification:
    """A certificate that holds, and what was checked."""

    path: Path
    certificate: Certificate
    digest: str
    compositions: int
    bounds: int
    key_expected: bool  # that the first signatory's key is one that the reader named
    run_checked: bool = False

    @property
    def sound(self) -> bool:
        """Whether it can be relied on; a genuine certificate may say of itself that it can't."""
        return not any(notice.kind.voids for notice in self.certificate.attention)

    def line(self) -> str:
        """All of it in one line."""
        made = self.certificate
        first = made.signatories[0]
        key = PublicKey.from_hex(first.key).short
        whose = f"signed by {first.name} (key {key}{'' if self.key_expected else ', whose it is was not checked'})"
        others = _cosigned([each.site for each in made.signatories if each.site is not None])
        run = ", the run is the certified one" if self.run_checked else ""
        numbers = f"{self.bounds} ε computed again from {self.compositions} compositions"
        opening = "holds" if self.sound else "is genuine, and says of itself that NOTHING in it may be relied on"
        return f"{self.path}: {opening}: {made.verdict} ({whose}{others}; {numbers}{run}; until {made.expires})"


NAMED_SITES = 12
"""So many sites are named in the line; the file names all."""


def _cosigned(sites: list[str]) -> str:
    if not sites:
        return ""
    named = ", ".join(sites[:NAMED_SITES])
    more = f" and {len(sites) - NAMED_SITES} more" if len(sites) > NAMED_SITES else ""
    return f", countersigned by {len(sites)} sites for their own bounds: {named}{more}"


def verify_certificate(
    path: str | Path,
    *,
    key: PublicKey | None = None,
    run: str | Path | None = None,
    today: datetime.date | None = None,
) -> Verification:
    """Check a certificate; `CertificateRefused` where anything does not fit.

    `key` is the one that the first signatory must have; without it nothing says whose signature it is. `run` is a run
    directory whose files must be the certified ones.
    """
    where = Path(path)
    signed = read_certificate(where)
    made = signed.certificate
    missing = missing_signatories(signed)
    if missing:
        problem = signature_problem(signed)  # of those who have
        if problem is not None:
            raise CertificateRefused(where, problem)
        there = [each.name for each in made.signatories if each not in missing] or ["nobody"]
        waiting = ", ".join(each.name for each in missing)
        raise CertificateRefused(where, f"not yet signed by {waiting}; signed by {', '.join(there)}")
    if key is not None and made.signatories[0].key != key.hex:
        signer = PublicKey.from_hex(made.signatories[0].key).short
        raise CertificateRefused(where, f"signed with the key {signer}, not with {key.short}")
    now = datetime.datetime.now(datetime.UTC).date() if today is None else today
    if now > made.day("expires"):
        raise CertificateRefused(where, f"expired on {made.expires}")
    bounds, compositions = _check_content(where, signed)
    if run is not None:
        problem = digest_problem(made.digests, Path(run))
        if problem is not None:
            raise CertificateRefused(where, f"{run}: {problem}")
    return Verification(
        where, made, certificate_digest(made), compositions, bounds, key is not None, run_checked=run is not None
    )


@dataclass(frozen=True)
class WrittenCertificate:
    """Where a certificate is, and what it says."""

    path: Path
    signed: SignedCertificate

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """Who has not signed yet."""
        return tuple(each.name for each in missing_signatories(self.signed))


def write_certificate(path: Path, signed: SignedCertificate) -> WrittenCertificate:
    write_whole(path, file_form(as_plain(signed)))
    return WrittenCertificate(path, signed)


def countersign(path: str | Path, key: SigningKey) -> WrittenCertificate:
    """Add the signature of a site that the certificate names; nobody signs what does not hold as far as it is there."""
    where = Path(path)
    signed = read_checked(where)
    return write_certificate(where, sign_certificate(signed, key))


def read_checked(path: Path) -> SignedCertificate:
    """A certificate whose every number holds, and every signature that is there; others may be missing."""
    signed = read_certificate(path)
    _check_content(path, signed)
    return signed


def read_certificate(path: Path) -> SignedCertificate:
    """A certificate from its file, in its types; nothing is computed or believed yet."""
    with disk_errors(path), open(path, "rb") as file:
        content = file.read(LARGEST_FILE + 1)
    try:
        table = read_file_form(content)
    except NotCanonical as error:
        raise CertificateRefused(path, f"it can't be read ({error})") from None
    _check_version(path, table)
    try:
        signed = typed(table, SignedCertificate, "file")
    except WrongValue as error:
        raise CertificateRefused(path, " ".join(str(error).split())) from None
    if as_plain(signed) != table:
        raise CertificateRefused(path, "it says a number in another way than it was written")
    return signed


def _check_version(path: Path, table: object) -> None:
    body = table.get("certificate") if isinstance(table, dict) else None
    if not isinstance(body, dict) or body.get("format") != FORMAT_NAME:
        raise CertificateRefused(path, "it is not a certificate of fedveil")
    if body.get("version") != FORMAT_VERSION or isinstance(body.get("version"), bool):
        version = repr(body.get("version"))[:20]
        raise CertificateRefused(path, f"it is of version {version}; this fedveil reads version {FORMAT_VERSION}")


def _check_content(path: Path, signed: SignedCertificate) -> tuple[int, int]:
    """The signatures that are there, every number, and the verdict; what `_check_numbers` counted."""
    problem = signature_problem(signed)
    if problem is not None:
        raise CertificateRefused(path, problem)
    made = signed.certificate
    counted = _check_numbers(path, made)
    if certificate_verdict(made.cells, made.attention) != made.verdict:
        raise CertificateRefused(path, "its verdict is not the one that its cells give")
    return counted


def _check_numbers(path: Path, made: Certificate) -> tuple[int, int]:
    """Every bound computed again; how many there are, and of how many distinct compositions."""
    every = list(_all_bounds(made))
    distinct = {(bound.composition, delta) for _, bound, delta in every if bound.composition is not None}
    if len(distinct) > MOST_COMPOSITIONS:
        raise CertificateRefused(path, f"{len(distinct)} compositions are more than are computed again")
    for name, bound, delta in every:
        problem = _bound_problem(bound, delta)
        if problem is not None:
            raise CertificateRefused(path, f"{name}: {problem}")
    for cell in made.cells:
        problem = _cell_problem(cell)
        if problem is not None:
            raise CertificateRefused(path, f"{cell.name}: {problem}")
        problem = None if made.federation is None else _site_problem(cell, made.sites)
        if problem is not None:
            raise CertificateRefused(path, f"{cell.name}: {problem}")
    return len(every), len(distinct)


def _all_bounds(made: Certificate) -> Iterator[tuple[str, CertifiedBound, float]]:
    for cell in made.cells:
        yield from ((cell.name, bound, cell.delta) for bound in cell.bounds)
    delta = made.cells[0].delta
    for site in made.sites:
        yield from ((f"site {site.name}", own.bound, delta) for own in site.bounds)


def _bound_problem(bound: CertifiedBound, delta: float) -> str | None:
    parts = bound.composition
    if parts is None:
        return None  # ε is ∞, with its reason: nothing is claimed
    try:
        if composition(*parts) != parts:
            return "its composition is not in its normal form"
        if bound.described != describe(parts):
            return "its composition is described as another one"
        now = recompute(parts, delta)
    except (FedveilError, ArithmeticError, ValueError, MemoryError) as error:
        return f"its composition can't be accounted ({' '.join(str(error).split())[:120]})"
    if understated(bound.epsilon, now.epsilon):
        return f"ε = {bound.epsilon:.6g} is stated, and its composition gives {now.epsilon:.6g}"
    if bound.risk is not None and (
        understated(bound.risk.advantage, now.risk.advantage)
        or understated(bound.risk.right_guess, now.risk.right_guess)
        or [rate for rate, _ in bound.risk.rates] != [rate for rate, _ in now.risk.rates]
        or any(understated(its, mine) for (_, its), (_, mine) in zip(bound.risk.rates, now.risk.rates, strict=True))
        or (bound.risk.mean is not None and (now.risk.mean is None or understated(bound.risk.mean, now.risk.mean)))
    ):
        return "the stated risk is smaller than what its composition gives"
    return None


def _site_problem(cell: CertifiedCell, sites: Sequence[CertifiedSite]) -> str | None:
    """Against the server a cell is the worst of what single sites have; what is published may count on several."""
    for site in sites if cell.view is View.SERVER else ():
        own = next(own.bound for own in site.bounds if (own.unit, own.view) == (cell.unit, cell.view))
        if own.relation is cell.certified.relation and understated(cell.certified.epsilon, own.epsilon):
            return f"it says less than what site {site.name} has by itself"
    return None


def _cell_problem(cell: CertifiedCell) -> str | None:
    if cell.copies is not None and understated(cell.copies.epsilon, cell.certified.epsilon):
        return "all copies of a record together can't cost less than one"
    return None
