"""A run held to its certificate: the certificate is made again from the run, and must not have said less."""

from __future__ import annotations

from pathlib import Path

from fedveil.certificate.bound_figures import understated
from fedveil.certificate.document import Certificate
from fedveil.certificate.stated_bounds import CertifiedBound
from fedveil.certificate.verify import CertificateRefused, Verification
from fedveil.core.errors import FedveilError
from fedveil.runs.read import read_run
from fedveil.studies.certify import unsigned_certificate


def check_replayed(checked: Verification, run: str | Path) -> None:
    """Refuse a certificate that says less than the run's spec and its replayed ledger give.

    The digests say that the files are the certified ones. This says that what is certified follows from them.
    """
    read = read_run(Path(run))
    if read.accountable is None or read.book is None:
        raise CertificateRefused(checked.path, f"{run}: can't be accounted again ({'; '.join(read.problems)})")
    try:
        now = unsigned_certificate(
            read,
            read.accountable,
            release=checked.certificate.for_release,
            federation=checked.certificate.federation,
            signatories=checked.certificate.signatories,
        )
    except FedveilError as error:
        raise CertificateRefused(checked.path, f"{run}: {error}") from None
    problem = _difference(checked.certificate, now)
    if problem is not None:
        raise CertificateRefused(checked.path, problem)


def _difference(stated: Certificate, now: Certificate) -> str | None:
    """Where the certificate says less than the run; texts may be those of another version, kinds and numbers not."""
    silent = {notice.kind for notice in now.attention} - {notice.kind for notice in stated.attention}
    if silent:
        return f"the run is {min(silent)}, and the certificate does not say so"
    if _trained(stated) != _trained(now):
        return "another training is described than the run's"
    for cell, mine in zip(stated.cells, now.cells, strict=True):
        lacking = {remark.kind for remark in mine.caveats} - {remark.kind for remark in cell.caveats}
        if lacking:
            return f"{cell.name}: the caveat {min(lacking)} is left out"
        pairs = ((cell.promised, mine.promised), (cell.spent, mine.spent), (cell.copies, mine.copies))
        problem = next(filter(None, (_less(*pair) for pair in pairs)), None)
        if problem is not None or cell.delta != mine.delta:
            return f"{cell.name}: {problem or 'another δ is stated than the run has'}"
    if [site.name for site in stated.sites] != [site.name for site in now.sites]:
        return "other sites are named than the run has"
    for site, own in zip(stated.sites, now.sites, strict=True):
        pairs_of_site = zip(site.bounds, own.bounds, strict=True)
        problem = next(filter(None, (_less(its.bound, mine.bound) for its, mine in pairs_of_site)), None)
        if problem is not None:
            return f"site {site.name}: {problem}"
    return None


def _trained(certificate: Certificate) -> tuple[object, ...]:
    facts, randomness = certificate.training, certificate.randomness
    counts = (facts.clients, facts.rounds_planned, facts.rounds_published, facts.state)
    return (facts.method, facts.data, facts.model, *counts, randomness.source, randomness.cells_per_deviation)


def _less(stated: CertifiedBound | None, now: CertifiedBound | None) -> str | None:
    if now is None:
        return None
    if stated is None:
        return "a bound of the run is left out"
    # Nothing was spent, or nothing is promised: under whatever relation.
    same = stated.relation is now.relation or now.epsilon == 0 or stated.composition is None
    risk = stated.risk is not None and now.risk is not None and understated(stated.risk.advantage, now.risk.advantage)
    if same and not risk and not understated(stated.epsilon, now.epsilon):
        return None
    return (
        f"ε = {stated.epsilon:.6g} ({stated.relation}) is stated, and the run gives {now.epsilon:.6g} ({now.relation})"
    )
