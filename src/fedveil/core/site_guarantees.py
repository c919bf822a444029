"""What is promised to each named site, and what it has spent: one cell of the table, site by site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedveil.core.guarantee import cell_name, plain_number
from fedveil.core.types import Unit, View


@dataclass(frozen=True)
class SiteGuarantee:
    """One site's own ε. `spent` and `rounds`, the number of those it took part in, are None before anything ran.

    Sites differ: one with fewer records gives each of them more often, and one that is drawn more often spends more.
    """

    name: str
    records: int
    promised: float
    spent: float | None = None
    rounds: int | None = None


@dataclass(frozen=True)
class SiteGuarantees:
    """Every site's ε of one unit against one view, at one δ."""

    unit: Unit
    view: View
    delta: float
    sites: tuple[SiteGuarantee, ...]

    @property
    def cell(self) -> str:
        return cell_name(self.unit, self.view)

    def to_dict(self) -> dict[str, Any]:
        sites = [
            {
                "name": site.name,
                "records": site.records,
                "rounds": site.rounds,
                "promised": plain_number(site.promised),
                "spent": None if site.spent is None else plain_number(site.spent),
            }
            for site in self.sites
        ]
        return {"unit": str(self.unit), "view": str(self.view), "delta": self.delta, "sites": sites}

    @staticmethod
    def from_dict(table: Mapping[str, Any]) -> SiteGuarantees:
        """What `to_dict` made; KeyError, TypeError or ValueError for anything else."""
        sites = tuple(
            SiteGuarantee(
                str(site["name"]),
                int(site["records"]),
                float(site["promised"]),
                None if site["spent"] is None else float(site["spent"]),
                None if site["rounds"] is None else int(site["rounds"]),
            )
            for site in table["sites"]
        )
        return SiteGuarantees(Unit(table["unit"]), View(table["view"]), float(table["delta"]), sites)
