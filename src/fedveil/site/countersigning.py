"""A site signs a federation's certificate for its own bounds, after holding them to its own ledger.

What others were asked, a site can't know; what it was asked itself, it knows better than the coordinator. So it signs
if the plan is one that it agreed to, if the certificate has its name, key and records, and if what is stated of it is
no less than what its ledger gives.
"""

from __future__ import annotations

from pathlib import Path

from fedveil.accounting.alone import answered_table
from fedveil.certificate.bound_figures import understated
from fedveil.certificate.document import Certificate
from fedveil.certificate.signatories import sign_certificate
from fedveil.certificate.stated_bounds import CertifiedSite, SiteBound
from fedveil.certificate.verify import CertificateRefused, WrittenCertificate, read_checked, write_certificate
from fedveil.config.federation_plan import FederationPlan
from fedveil.config.plan_facts import facts_of_plan
from fedveil.core.guarantee import Guarantee
from fedveil.core.types import Declaration
from fedveil.site.home import SiteHome


def countersign_at_site(home: SiteHome, path: str | Path) -> WrittenCertificate:
    """Add this site's signature; `CertificateRefused` where the site can't stand for what is said of it."""
    where = Path(path)
    signed = read_checked(where)
    problem = site_objection(home, signed.certificate)
    if problem is not None:
        raise CertificateRefused(where, f"this site does not sign it: {problem}")
    return write_certificate(where, sign_certificate(signed, home.signing_key))


def site_objection(home: SiteHome, made: Certificate) -> str | None:
    """Why this site does not sign; None where it may."""
    if made.federation is None:
        return "it is not the certificate of a federation"
    with home.opened_ledger() as ledger:
        agreed = made.federation.plan in ledger.approved
        answers = [paid.declared for paid in ledger.paid if paid.plan == made.federation.plan]
    if not agreed:
        return f"nobody here has agreed to the plan {made.federation.plan[:16]}"
    plan = home.read_plan(made.federation.plan)
    own = next((site for site in made.sites if site.name == home.name), None)
    signing = next((each for each in made.signatories if each.site == home.name), None)
    if own is None or signing is None:
        return f"it does not name the site {home.name!r}"
    if signing.key != home.public_key:
        return "it has another key for this site"
    if own.records != len(home.records):
        return f"it counts {own.records} records here; there are {len(home.records)}"
    if made.federation != facts_of_plan(plan):
        return "coordinator, quorum or deadline are not those of the plan"
    trained = (made.training.method, made.training.rounds_planned, made.training.clients)
    if trained != (plan.spec.base, plan.spec.method.rounds, len(plan.sites)):
        return "another training is described than the plan's"
    if made.cells[0].delta != plan.context.delta:
        return "another δ is stated than the plan's"
    return _understated(plan, own, answers)


def _understated(plan: FederationPlan, own: CertifiedSite, answers: list[tuple[Declaration, ...]]) -> str | None:
    """Where less is stated of this site than what its answers cost by its own ledger."""
    if not answers:
        return None
    table = answered_table(plan.context, plan.number(own.name), answers)
    for stated in own.bounds:
        problem = _less(stated, table.of(stated.unit, stated.view))
        if problem is not None:
            return problem
    return None


def _less(stated: SiteBound, mine: Guarantee) -> str | None:
    bound = stated.bound
    if bound.composition is None:
        return None  # nothing is promised to anybody there
    if bound.relation is mine.relation and not understated(bound.epsilon, mine.epsilon):
        return None
    return (
        f"{mine.name}: ε = {bound.epsilon:.6g} ({bound.relation}) is stated of it, and its ledger gives"
        f" {mine.epsilon:.6g} ({mine.relation})"
    )
