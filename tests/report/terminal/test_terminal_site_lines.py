"""The table of sites on a terminal."""

from __future__ import annotations

from fedveil.core.site_guarantees import SiteGuarantee, SiteGuarantees
from fedveil.core.types import Unit, View
from fedveil.report.terminal.site_lines import site_lines


def found(*sites: SiteGuarantee) -> SiteGuarantees:
    return SiteGuarantees(Unit.RECORD, View.SERVER, 1e-5, sites)


def test_every_site_has_a_line_with_what_it_was_promised_and_has_spent() -> None:
    lines = site_lines(
        found(SiteGuarantee("north", 1200, 1.00001, 0.5, 3), SiteGuarantee("far south", 40, 2.0, 0.0, 0))
    )
    assert lines == [
        "each site's own record × server (δ = 1e-05)",
        "  site       records  rounds  ε promised  ε spent",
        "  north        1,200       3       1.001      0.5",
        "  far south       40       0           2        0",
    ]


def test_sites_that_have_the_same_share_a_line_unless_every_one_is_asked_for() -> None:
    alike = found(*(SiteGuarantee(f"site {number}", 10 * number, 0.5, 0.25, 3) for number in (1, 2, 3)))
    assert site_lines(alike) == [
        "each site's own record × server (δ = 1e-05): rounds 3, ε promised 0.5, ε spent",
        "  0.25 at all 3 sites, of 10 to 30 records",
    ]
    assert len(site_lines(alike, every=True)) == 5


def test_before_anything_ran_there_is_only_the_promise() -> None:
    assert site_lines(found(SiteGuarantee("north", 12, float("inf"))))[1:] == [
        "  site   records  ε promised",
        "  north       12           ∞",
    ]


def test_without_names_there_is_no_table() -> None:
    assert site_lines(None) == []
