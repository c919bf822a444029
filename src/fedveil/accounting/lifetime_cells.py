"""The whole table of one client over all the plans it ever answered, counting on nobody else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from fedveil.accounting.alone import Answered, best_total, bounds_of
from fedveil.accounting.compose import certify, describe
from fedveil.accounting.risk import risk_of
from fedveil.accounting.table import BY_RENYI, NO_COPIES, PUBLIC_COUNTS, VACUOUS
from fedveil.core.guarantee import Caveat, CaveatKind, Guarantee, Relation
from fedveil.core.types import Unit, View

FIXED_BEFOREHAND = Caveat(
    CaveatKind.CONDITION,
    "as if all plans had been fixed before the first answer; where a later plan was chosen by who saw earlier answers,"
    " the lifetime's budget, which counts later plans for more, is what holds",
)


def lifetime_cells(plans: Iterable[Answered], records: int, delta: float) -> tuple[Guarantee, ...]:
    """ε(δ) over unit × view of all answers to all plans: each a list of what its answers were charged."""
    every = [list(answers) for answers in plans]
    answered = sum(map(len, every))
    caveats = (
        Caveat(CaveatKind.CONDITION, f"over the {answered:,} answers that were paid for, under {len(every):,} plans"),
        *((FIXED_BEFOREHAND,) if len(every) > 1 else ()),
        PUBLIC_COUNTS,
        NO_COPIES,
    )
    return tuple(_cell(every, records, delta, unit, view, caveats) for unit in Unit for view in View)


def _cell(
    plans: Sequence[Answered], records: int, delta: float, unit: Unit, view: View, caveats: tuple[Caveat, ...]
) -> Guarantee:
    bounds = [bounds_of(answers, records, unit, view) for answers in plans]
    units = records if unit is Unit.RECORD else 1
    if delta * units >= 1:
        caveats += (Caveat(CaveatKind.LARGE_DELTA, f"δ is not below one in {units:,}, the number of {unit}s"),)
    total = best_total(bounds, delta)
    if total is None:
        reasons = "; ".join(dict.fromkeys(reason for plan in bounds for reason in plan.reasons if not plan.bounds))
        reasons = reasons or "no two plans are bounded under one relation of neighbours"
        return Guarantee(unit, view, Relation.ADD_OR_REMOVE, math.inf, delta, "none", "none", caveats, reasons)
    relation, parts = total
    certified = certify(parts, delta)
    if unit is Unit.CLIENT and certified.epsilon > VACUOUS:
        reason = certified.reason or f"all {records:,} records together have ε = {certified.epsilon:.3g}: that is none"
        return Guarantee(unit, view, relation, math.inf, delta, "none", "none", caveats, reason)
    caveats += (BY_RENYI,) if certified.by_renyi else ()
    risk = risk_of(parts) if math.isfinite(certified.epsilon) else None
    return Guarantee(
        unit,
        view,
        relation,
        certified.epsilon,
        delta,
        certified.accountant,
        describe(parts),
        caveats,
        certified.reason,
        risk=risk,
        composed=parts,
    )
