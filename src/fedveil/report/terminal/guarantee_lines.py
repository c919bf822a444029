"""Guarantees and claims as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.core.guarantee import Caveat, Claim, Guarantee, cell_name
from fedveil.core.types import Unit, View
from fedveil.report.model.number_texts import claimed_text, epsilon_text


def table_lines(title: str, guarantees: Sequence[Guarantee]) -> list[str]:
    """One line per cell; caveats that all cells share are said once, below."""
    if not any(guarantee.finite for guarantee in guarantees):
        reasons = dict.fromkeys(guarantee.reason for guarantee in guarantees)
        return [f"{title}: nothing is guaranteed to anyone (ε = ∞ in every cell): {'; '.join(reasons)}"]
    shared = [
        caveat for caveat in guarantees[0].caveats if all(caveat in guarantee.caveats for guarantee in guarantees)
    ]
    lines = [f"{title} (δ = {guarantees[0].delta:g})"]
    for guarantee in guarantees:
        lines += [_line(guarantee, shared), *_secondary(guarantee)]
    return lines + [f"  · {caveat.text}" for caveat in shared]


def _line(guarantee: Guarantee, shared: Sequence[Caveat]) -> str:
    """What voids an ε stands right behind it, before what was composed."""
    if not guarantee.finite:
        value, parts = "ε = ∞", [guarantee.reason]
    else:
        own = [caveat for caveat in guarantee.caveats if caveat not in shared]
        value = f"ε = {epsilon_text(guarantee.epsilon)}"
        parts = [caveat.text for caveat in own if caveat.kind.voids]
        parts += [guarantee.composition, str(guarantee.relation), guarantee.accountant]
        parts += [caveat.text for caveat in own if not caveat.kind.voids]
    return f"  {guarantee.unit:7}× {guarantee.view:10} {value:12} {'; '.join(parts)}"


def _secondary(guarantee: Guarantee) -> list[str]:
    return [
        f"  {'':19} ε = {epsilon_text(other.epsilon):8} {other.accountant}: {other.note}"
        for other in guarantee.secondary
    ]


def client_lines(unit: Unit, view: View, epsilons: Sequence[float]) -> list[str]:
    """What clients have spent, in a few numbers."""
    values = sorted(epsilons)
    least, median, most = (epsilon_text(values[place]) for place in (0, len(values) // 2, -1))
    untouched = sum(value == 0 for value in values)
    return [
        f"clients' own {cell_name(unit, view)}: least ε = {least}, median {median}, most {most};"
        f" {untouched} of {len(values)} have spent nothing"
    ]


def claim_lines(claims: Sequence[Claim]) -> list[str]:
    """What the papers claim, always with the reason why the verified ε differs."""
    return [
        f"claimed: {claim.name} ε = {claimed_text(claim.epsilon)} ({claim.source}). {claim.difference}"
        for claim in claims
    ]
