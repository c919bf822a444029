"""A certificate of a run: everything that is stated about it, signed."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from fedveil.accounting.claims import claims
from fedveil.accounting.context import Context
from fedveil.accounting.plan import plan
from fedveil.certificate.document import FORMAT_NAME, FORMAT_VERSION, Certificate, Signatory, SignedCertificate
from fedveil.certificate.run_digests import digests_of_run
from fedveil.certificate.signatories import sign_certificate
from fedveil.certificate.stated_facts import (
    CertifiedAttack,
    CertifiedAudit,
    CertifiedEvidence,
    PlanFacts,
    RandomnessFacts,
    RandomnessSource,
    Software,
    TrainingFacts,
)
from fedveil.certificate.statements import certificate_verdict
from fedveil.certificate.verify import WrittenCertificate, write_certificate
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.signing import PublicKey, SigningKey
from fedveil.mechanisms.noise import STD_CELLS
from fedveil.report.model.audit_sentences import audit_sentences
from fedveil.report.model.evidence_facts import AttackFacts, AuditFacts
from fedveil.runs.describe import clients_words, clip_words, training_words
from fedveil.runs.evidence import read_attacks, read_audits
from fedveil.runs.read import Reading, read_run
from fedveil.studies.certificate_texts import notices_of, trust_sentences, uncovered_sentences
from fedveil.studies.certified_cells import certified_cells, certified_sites
from fedveil.zoo import ZOO

DEFAULT_DAYS, MOST_DAYS = 365, 3660

NO_EVIDENCE = "No audit and no attack of this run is known: the proof stands alone."
SOME_EVIDENCE = (
    "An audit bounds ε from below and says what it would have noticed. An attack that fails proves nothing; one that"
    " succeeds shows that a view is not safe."
)
ATTACKS_LEFT_OUT = " Attacks are measured on real training records and are left out of a certificate for release."
GRID_NOISE = (
    "Gaussian noise, rounded to a grid and added as integers to a sum on the same grid; what rounding may move is taken"
    " off the clip, so that ε holds for the numbers of a machine"
)
NO_JUSTIFICATION = "none was given"
NOBODY = Signatory("nobody yet", "00" * 32, None)


def certify_run(
    run: str | Path,
    key: SigningKey,
    *,
    signatory: str,
    out: str | Path | None = None,
    justification: str = "",
    days: int = DEFAULT_DAYS,
    sites: Mapping[str, PublicKey] | None = None,
    federation: PlanFacts | None = None,
    release: bool = False,
) -> WrittenCertificate:
    """Write a signed certificate of a run, `RUN/certificate.json` unless `out` says otherwise.

    `sites` are the public keys of named sites that must countersign: all of them, where `federation` says by which plan
    real sites took part. Their bounds then count on nobody else. `release` refuses a run that is unfinished, seeded
    or diverged, whose promise is broken or void, and leaves out what tells who took part.
    """
    if not 1 <= days <= MOST_DAYS:
        raise ArgumentError("days", f"must be between 1 and {MOST_DAYS}, not {days}")
    read = read_run(Path(run))
    context = read.accountable
    if context is None or read.book is None:
        why = "; ".join(read.problems) or "what was promised is not known"
        raise FedveilError(f"{run}: what is guaranteed can't be checked, so nothing can be certified ({why})")
    path = read.files.directory / "certificate.json" if out is None else Path(out)
    made = unsigned_certificate(
        read,
        context,
        release=release,
        justification=justification.strip(),
        days=days,
        federation=federation,
        signatories=_signatories(signatory.strip(), key, context, sites or {}),
    )
    return write_certificate(path, sign_certificate(SignedCertificate(made, ()), key))


def unsigned_certificate(
    read: Reading,
    context: Context,
    *,
    release: bool,
    justification: str = "",
    days: int = DEFAULT_DAYS,
    federation: PlanFacts | None = None,
    signatories: Sequence[Signatory] = (NOBODY,),
) -> Certificate:
    """All that follows from the run itself; nobody stands for it yet."""
    attacks, failed_attacks = read_attacks(read.files)
    audits, failed_audits = read_audits(read.files)
    read.problems += [*failed_attacks, *failed_audits]
    promised, spent = plan(context), read.spent()
    cells, guarantees = certified_cells(promised, spent, claims(context), release=release)
    attention = notices_of(read, guarantees, audits, diverged=read.diverged)
    if release and attention:
        raise ArgumentError("for_release", f"{read.files.directory.name}: {attention[0].text}")
    now = datetime.datetime.now(datetime.UTC)
    return Certificate(
        attention=attention,
        verdict=certificate_verdict(cells, attention),
        cells=cells,
        sites=certified_sites(promised if release or spent is None else spent, alone=federation is not None),
        federation=federation,
        training=_training(read, context),
        digests=digests_of_run(read.files.directory),
        trust=trust_sentences(tuple(context.method.mechanisms), guarantees),
        not_covered=uncovered_sentences(guarantees),
        randomness=_randomness(context),
        evidence=_evidence(audits, attacks, release=release),
        software=_software(read),
        justification=justification or NO_JUSTIFICATION,
        signatories=tuple(signatories),
        created=now.isoformat(timespec="seconds"),
        expires=(now + datetime.timedelta(days=days)).date().isoformat(),
        for_release=release,
        format=FORMAT_NAME,
        version=FORMAT_VERSION,
    )


def _signatories(name: str, key: SigningKey, context: Context, sites: Mapping[str, PublicKey]) -> tuple[Signatory, ...]:
    known = context.population.names
    for site in sites:
        if site not in known:
            there = f"there are {', '.join(known)}" if known else "the run has no named sites"
            raise ArgumentError("site", f"{site!r} is not a site of this run; {there}")
    if len({key.public.hex, *(each.hex for each in sites.values())}) <= len(sites):
        raise ArgumentError("signatory", "two signatories have one key")
    try:
        first = Signatory(name, key.public.hex, None)
    except ValueError as error:
        raise ArgumentError("signatory", str(error)) from None
    return (first, *(Signatory(f"site {site}", each.hex, site) for site, each in sites.items()))


def _training(read: Reading, context: Context) -> TrainingFacts:
    spec, parameters = read.spec, read.manifest.get("parameters")
    words = (str(read.manifest.get("data", "")), clients_words(spec, context), *clip_words(spec), *training_words(spec))
    return TrainingFacts(
        spec.base,
        ZOO[spec.base].paper,
        spec.data.name,
        tuple(filter(None, words)),
        spec.model.name,
        parameters if isinstance(parameters, int) else None,
        context.population.clients,
        spec.method.rounds,
        read.published,
        read.status.state,
    )


def _randomness(context: Context) -> RandomnessFacts:
    source = RandomnessSource.SEED if context.seeded else RandomnessSource.SYSTEM
    if any(mechanism.sigma > 0 for mechanism in context.method.mechanisms.values()):
        return RandomnessFacts(source, GRID_NOISE, STD_CELLS)
    return RandomnessFacts(source, "no noise is added", None)


def _evidence(audits: Sequence[AuditFacts], attacks: Sequence[AttackFacts], *, release: bool) -> CertifiedEvidence:
    """As on a page for release: only audits with planted records, and no attacks on real ones."""
    shown = [audit for audit in audits if not release or audit.view.adversary.of_clients_work]
    tried = () if release else tuple(_attack(attack) for attack in attacks)
    said = SOME_EVIDENCE if shown or tried else NO_EVIDENCE
    return CertifiedEvidence(tuple(map(_audit, shown)), tried, said + (ATTACKS_LEFT_OUT if release else ""))


def _audit(audit: AuditFacts) -> CertifiedAudit:
    power = audit.power
    return CertifiedAudit(
        audit.unit,
        audit.view,
        audit.verdict,
        audit.canaries,
        audit.rounds,
        audit.confidence,
        audit.epsilon_lower,
        audit.epsilon_verified,
        None if power is None else power.noise,
        None if power is None else power.probability,
        " ".join(audit_sentences(audit)),
    )


def _attack(attack: AttackFacts) -> CertifiedAttack:
    return CertifiedAttack(
        attack.view, attack.attack, attack.victims, attack.success_rate, attack.rmse, attack.blind_rmse
    )


def _software(read: Reading) -> Software:
    keys = ("fedveil", "python", "torch", "dp_accounting")
    trained = tuple((key, str(read.manifest[key])) for key in keys if key in read.manifest)
    names = ("fedveil", "dp-accounting", "numpy", "scipy", "cryptography")
    return Software(trained, (*((name, version(name)) for name in names), ("python", platform.python_version())))
