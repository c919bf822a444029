"""Guarantees and claims as lines for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedveil.core.guarantee import Caveat, Claim, Guarantee, cell_name
from fedveil.core.risks import FALSE_ALARMS
from fedveil.core.types import Unit, View
from fedveil.report.model.number_texts import claimed_text, epsilon_text


def table_lines(
    title: str, guarantees: Sequence[Guarantee], beside: Sequence[Guarantee] = (), risks: bool = False
) -> list[str]:
    """One line per cell; caveats that all cells share are said once, below.

    `beside` are cells under another relation, each below the one that it stands beside. `risks` adds what every finite
    ε leaves to an attacker.
    """
    if not any(guarantee.finite for guarantee in guarantees):
        reasons = dict.fromkeys(guarantee.reason for guarantee in guarantees)
        return [f"{title}: nothing is guaranteed to anyone (ε = ∞ in every cell): {'; '.join(reasons)}"]
    shared = [
        caveat for caveat in guarantees[0].caveats if all(caveat in guarantee.caveats for guarantee in guarantees)
    ]
    lines = [f"{title} (δ = {guarantees[0].delta:g})"]
    for guarantee in guarantees:
        lines += [_line(guarantee, shared), *_secondary(guarantee), *(risk_lines(guarantee) if risks else ())]
        for other in beside:
            if (other.unit, other.view) == (guarantee.unit, guarantee.view):
                lines += [_line(other, shared), *(risk_lines(other) if risks else ())]
    return lines + [f"  · {caveat.text}" for caveat in shared]


def _line(guarantee: Guarantee, shared: Sequence[Caveat]) -> str:
    """What voids an ε stands right behind it, before what was composed."""
    if not guarantee.finite:
        value, parts = "ε = ∞", [guarantee.reason]
    else:
        own = [caveat for caveat in guarantee.caveats if caveat not in shared]
        value = f"ε = {epsilon_text(guarantee.epsilon)}"
        parts = [caveat.text for caveat in own if caveat.kind.voids]
        if guarantee.risk is not None and guarantee.void is None:
            parts.append(f"a guess is right ≤ {percent_up(guarantee.risk.right)}")
        parts += [guarantee.composition, str(guarantee.relation), guarantee.accountant]
        parts += [caveat.text for caveat in own if not caveat.kind.voids]
    return f"  {guarantee.unit:7}× {guarantee.view:10} {value:12} {'; '.join(parts)}"


def risk_lines(guarantee: Guarantee) -> list[str]:
    """The rest of what an ε leaves to an attacker, on a line of its own."""
    risk = guarantee.risk
    if risk is None or guarantee.void is not None:
        return []
    hits = ", ".join(
        f"TPR ≤ {percent_up(tpr)} at FPR {100 * fpr:g} %" for fpr, tpr in zip(FALSE_ALARMS, risk.hits, strict=True)
    )
    mean = "" if risk.mean is None else f", μ = {epsilon_text(risk.mean)}"
    return [f"  {'':19} {hits}, advantage ≤ {percent_up(risk.advantage)}{mean}"]


def percent_up(share: float) -> str:
    """Per hundred with one digit, rounded up."""
    return f"{min(math.ceil(share * 1000 - 1e-6) / 10, 100.0):.1f} %"


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
