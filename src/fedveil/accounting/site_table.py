"""Each named site's own ε, from the table of a training."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.accounting.table import Table
from fedveil.core.site_guarantees import SiteGuarantee, SiteGuarantees
from fedveil.core.types import TableCell, Unit, View

OWN_CELLS = (
    (Unit.RECORD, View.SERVER),
    (Unit.CLIENT, View.SERVER),
    (Unit.RECORD, View.RELEASED),
    (Unit.CLIENT, View.RELEASED),
)
"""Cells in which a client's own rounds and records count, the most telling one first."""


def own_cell(table: Table) -> TableCell | None:
    """The cell of the budget, or the first finite one of `OWN_CELLS`."""
    budget = table.context.budget
    wanted = [*([] if budget is None else [(budget.unit, budget.view)]), *OWN_CELLS]
    return next((cell for cell in wanted if table.of(*cell).finite), None)


def site_guarantees(
    promise: Table, spent: Table | None = None, rounds: Sequence[int] | None = None
) -> SiteGuarantees | None:
    """What each site was promised and has spent; None where sites have no names or nothing is promised to anybody.

    `rounds` says in how many rounds each took part.
    """
    population, cell = promise.context.population, own_cell(promise)
    if not population.names or cell is None:
        return None
    promised = promise.per_client(*cell)
    used = (None,) * len(promised) if spent is None else spent.per_client(*cell)
    taken = (None,) * len(promised) if rounds is None else rounds
    rows = zip(population.names, population.records, promised, used, taken, strict=True)
    return SiteGuarantees(*cell, promise.delta, tuple(SiteGuarantee(*row) for row in rows))
