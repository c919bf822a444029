"""Guarantees and claims as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.core.guarantee import CaveatKind, Claim, Guarantee, cell_name
from fedveil.core.risks import FALSE_ALARMS
from fedveil.core.types import Unit, View
from fedveil.report.model.guarantee_headline import NOTHING, headline, percent_up, spoken_of
from fedveil.report.model.guarantee_rows import GuaranteeRows, all_spoiling
from fedveil.report.model.number_texts import claimed_text, delta_text, epsilon_text
from fedveil.report.terminal.wrapped_lines import wrapped

_DETAIL = " " * 6


def table_lines(
    title: str,
    guarantees: Sequence[Guarantee],
    beside: Sequence[Guarantee] = (),
    risks: bool = False,
    *,
    verbose: bool = True,
) -> list[str]:
    """A row for all cells of a unit that are equal; reasons and caveats are numbered notes below, each said once.

    `beside` are cells under another relation, each below those that it stands beside. `verbose` adds to each row what
    was composed, by which accountant; `risks` all that a finite ε leaves to an attacker.
    """
    if not any(guarantee.finite for guarantee in guarantees):
        reasons = dict.fromkeys(guarantee.reason for guarantee in guarantees)
        return wrapped(f"{title}: {NOTHING}: {'; '.join(reasons)}", hanging="  ")
    made = GuaranteeRows.of(guarantees, beside)
    heading = f"{title} at δ = {delta_text(guarantees[0].delta)}"
    wide = max(len(heading) - 2, *(len(row.name) for row in made.rows))
    lines = [f"{heading:{wide + 2}}  {'ε':>8}  {'right guess':>11}  notes"]
    for row in made.rows:
        line = f"  {row.name:{wide}}  {row.epsilon:>8}  {row.guess:>11}  "
        marks = " ".join(map(str, row.notes))
        lines += wrapped(marks, line, " " * len(line)) if marks else [line.rstrip()]
        lines += _details(row.cell, verbose) + (risk_lines(row.cell) if risks else [])
    width = len(str(len(made.notes)))
    for number, text in enumerate(made.notes, 1):
        lines += wrapped(text, f"  {number:{width}} ", " " * (3 + width))
    for text in made.shared:
        lines += wrapped(text, "  · ", "    ")
    return lines


def _details(cell: Guarantee, verbose: bool) -> list[str]:
    lines = []
    if verbose and cell.finite:
        lines += wrapped(f"{cell.composition}; {cell.relation}; {cell.accountant}", _DETAIL, _DETAIL)
    for other in cell.secondary:
        text = f"{other.accountant}: ε = {epsilon_text(other.epsilon)}; {other.note}"
        lines += wrapped(text, _DETAIL, f"{_DETAIL}  ")
    return lines


def brief_lines(title: str, guarantees: Sequence[Guarantee]) -> list[str]:
    """The headline of a promise, and whatever spoils it: for before a training, whose table comes at its end."""
    if spoken_of(guarantees) is None:
        return table_lines(title, guarantees)
    lines = wrapped(f"{title}: {headline(guarantees)}", hanging="  ")
    for caveat in all_spoiling(guarantees):
        if caveat.kind is not CaveatKind.SEEDED:  # the headline has said all there is to say of it
            lines += wrapped(caveat.text, "  · ", "    ")
    return lines


def risk_lines(guarantee: Guarantee) -> list[str]:
    """The rest of what an ε leaves to an attacker."""
    risk = guarantee.risk
    if risk is None or guarantee.void is not None:
        return []
    hits = ", ".join(
        f"TPR ≤ {percent_up(tpr)} at FPR {100 * fpr:g} %" for fpr, tpr in zip(FALSE_ALARMS, risk.hits, strict=True)
    )
    mean = "" if risk.mean is None else f", μ = {epsilon_text(risk.mean)}"
    return wrapped(f"{hits}, advantage ≤ {percent_up(risk.advantage)}{mean}", _DETAIL, _DETAIL)


def client_lines(unit: Unit, view: View, epsilons: Sequence[float]) -> list[str]:
    """What clients have spent, in a few numbers."""
    values = sorted(epsilons)
    least, median, most = (epsilon_text(values[place]) for place in (0, len(values) // 2, -1))
    untouched = sum(value == 0 for value in values)
    return wrapped(
        f"clients' own {cell_name(unit, view)}: least ε = {least}, median {median}, most {most};"
        f" {untouched} of {len(values)} have spent nothing",
        hanging="  ",
    )


def claim_lines(claims: Sequence[Claim]) -> list[str]:
    """What the papers claim, always with the reason why the verified ε differs."""
    names: dict[tuple[str, str, str], list[str]] = {}
    for claim in claims:
        names.setdefault((claimed_text(claim.epsilon), claim.source, claim.difference), []).append(claim.name)
    lines = []
    for (epsilon, source, difference), cells in names.items():
        lines += wrapped(f"claimed: {', '.join(cells)} ε = {epsilon} ({source}). {difference}", hanging="  ")
    return lines
