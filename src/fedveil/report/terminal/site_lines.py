"""A table of sites as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.core.site_guarantees import SiteGuarantees
from fedveil.report.model.number_texts import epsilon_text
from fedveil.report.terminal.wrapped_lines import wrapped


def site_lines(found: SiteGuarantees | None, *, every: bool = False) -> list[str]:
    """A line for each site: its records, its rounds, and its own ε, promised and spent; one for all where these are
    equal, unless `every` site is asked for. Nothing without names.
    """
    if found is None:
        return []
    ran = any(site.spent is not None for site in found.sites)
    headings = ["site", "records", *(["rounds"] if ran else []), "ε promised", *(["ε spent"] if ran else [])]
    rows = [
        [
            site.name,
            f"{site.records:,}",
            *(["–" if site.rounds is None else f"{site.rounds:,}"] if ran else []),
            epsilon_text(site.promised),
            *([epsilon_text(site.spent)] if ran else []),
        ]
        for site in found.sites
    ]
    title = f"each site's own {found.cell} (δ = {found.delta:g})"
    if not every and len(rows) > 2 and len({tuple(row[2:]) for row in rows}) == 1:
        sizes = [site.records for site in found.sites]
        same = ", ".join(f"{heading} {cell}" for heading, cell in zip(headings[2:], rows[0][2:], strict=True))
        return wrapped(
            f"{title}: {same} at all {len(rows)} sites, of {min(sizes):,} to {max(sizes):,} records", "", "  "
        )
    return [title, *aligned([headings, *rows])]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of the same width: the first flush left, the others, which are numbers, flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        numbers = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(["", first.ljust(widths[0]), *numbers]))
    return lines
