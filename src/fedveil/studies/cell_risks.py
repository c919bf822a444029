"""What the cells of a run mean, as facts for its page: how often a guess is right, for all and for each named site."""

from __future__ import annotations

from pathlib import Path

from fedveil.accounting.table import Table
from fedveil.certificate.verify import verify_certificate
from fedveil.core.errors import FedveilError
from fedveil.core.types import Unit, View
from fedveil.report.model.run_facts import CertificateFacts, SiteFacts
from fedveil.report.model.verdict_sentence import risk_of_cell

SITE_VIEWS = (View.SERVER, View.RELEASED)
"""What a site asks first: what its coordinator, and what everybody can find out."""

MOST_SITE_ROWS = 200


def sites_of(table: Table) -> tuple[SiteFacts, ...]:
    """Each named site's own cells; simulated clients have no names."""
    population = table.context.population
    if population.clients > MOST_SITE_ROWS:
        return ()
    facts = []
    for client, name in enumerate(population.names):
        own = [table.client(client, Unit.RECORD, view) for view in SITE_VIEWS]
        risks = tuple(risk_of_cell(cell) for cell in own)
        facts.append(SiteFacts(name, population.records[client], risks, tuple(cell.epsilon for cell in own)))
    return tuple(facts)


def certificate_facts(directory: Path, *, release: bool) -> CertificateFacts | None:
    """What the check of the run's own certificate says, beside the run; None where it has none that may be shown."""
    path = directory / "certificate.json"
    if not path.is_file():
        return None
    try:
        checked = verify_certificate(path, run=directory)
    except FedveilError as error:
        return CertificateFacts(False, str(error).replace(f"{directory}/", ""))
    if release and not checked.certificate.for_release:  # it says what was spent
        return None
    return CertificateFacts(checked.sound, checked.line().replace(f"{directory}/", ""))
