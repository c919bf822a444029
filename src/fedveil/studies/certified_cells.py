"""The cells of a certificate: each guarantee with its composition, its risk and what a paper claims for it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedveil.accounting.alone import table_of_one
from fedveil.accounting.compose import describe
from fedveil.accounting.table import Table, like
from fedveil.certificate.bound_figures import figures_of, risk_figures
from fedveil.certificate.document import MOST_ENTRIES
from fedveil.certificate.stated_bounds import (
    SITE_CELLS,
    Basis,
    CertifiedBound,
    CertifiedCell,
    CertifiedClaim,
    CertifiedSite,
    Remark,
    SiteBound,
)
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Claim, Guarantee
from fedveil.core.types import Unit, View

MOST_SITES = 100
"""More named sites are left to the worst case, so that a certificate can be checked at once."""


def certified_bound(cell: Guarantee) -> CertifiedBound:
    """A guarantee that the accountant made just now; one that was read from a file has no composition."""
    if not cell.finite:
        return CertifiedBound(math.inf, cell.relation, cell.accountant, None, cell.composition, None, cell.reason)
    if cell.composed is None:
        raise FedveilError(f"{cell.name}: its composition is not known, so nobody could compute its ε again")
    risk = risk_figures(cell.composed) if cell.risk is None else figures_of(cell.risk)
    return CertifiedBound(cell.epsilon, cell.relation, cell.accountant, cell.composed, cell.composition, risk, "")


def certified_cells(
    promised: Table, spent: Table | None, claims: Sequence[Claim], *, release: bool
) -> tuple[tuple[CertifiedCell, ...], tuple[Guarantee, ...]]:
    """All cells, and the guarantees that they certify.

    For release a cell is certified as promised: what was spent tells how often clients were drawn. Only where repeated
    rounds cost more than the promise is what was spent stated too, and certified.
    """
    cells, guarantees = [], []
    for promise in promised.guarantees:
        mine = None if spent is None else spent.of(promise.unit, promise.view)
        if release and mine is not None and spent is not None:
            mine = like(promise, spent)
            mine = mine if mine.epsilon > promise.epsilon else None
        stated = promise if mine is None else mine
        table = promised if mine is None or spent is None else spent
        beside = table.beside(promise.unit, promise.view)
        guarantees.append(stated)
        cells.append(
            CertifiedCell(
                promise.unit,
                promise.view,
                stated.delta,
                Basis.PROMISED if mine is None else Basis.SPENT,
                certified_bound(promise),
                None if mine is None else certified_bound(mine),
                _all_copies(stated),
                tuple(map(certified_bound, beside)),
                _claimed(claims, promise.unit, promise.view),
                tuple(Remark(caveat.kind, caveat.text) for caveat in stated.caveats),
            )
        )
    return tuple(cells), tuple(guarantees)


def _all_copies(cell: Guarantee) -> CertifiedBound | None:
    if cell.together is None:
        return None
    if math.isinf(cell.together) or cell.composed_together is None:
        why = "all copies of a record together are not bounded"
        return CertifiedBound(math.inf, cell.relation, "none", None, "none", None, why)
    parts = cell.composed_together
    risk = risk_figures(parts) if cell.risk_together is None else figures_of(cell.risk_together)
    described = describe(parts)
    return CertifiedBound(cell.together, cell.relation, cell.accountant, parts, described, risk, "")


def _claimed(claims: Sequence[Claim], unit: Unit, view: View) -> CertifiedClaim | None:
    claim = next((each for each in claims if (each.unit, each.view) == (unit, view)), None)
    return None if claim is None else CertifiedClaim(claim.epsilon, claim.delta, claim.source, claim.difference)


def certified_sites(table: Table, *, alone: bool = False) -> tuple[CertifiedSite, ...]:
    """Each named site's own bounds; simulated clients have no names, and are certified by the worst case alone.

    `alone` counts on nobody else, as real sites do: then each can check its own bounds by its own ledger.
    """
    population = table.context.population
    if not population.names or population.clients > (MOST_ENTRIES - 1 if alone else MOST_SITES):
        return ()
    return tuple(
        CertifiedSite(name, population.records[client], site_bounds(table_of_one(table, client)))
        if alone
        else CertifiedSite(name, population.records[client], site_bounds(table, client))
        for client, name in enumerate(population.names)
    )


def site_bounds(table: Table, client: int = 0) -> tuple[SiteBound, ...]:
    """The bounds of one client of a table that a certificate states for a site."""
    return tuple(SiteBound(unit, view, certified_bound(table.client(client, unit, view))) for unit, view in SITE_CELLS)
