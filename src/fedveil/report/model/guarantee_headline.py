"""The one line that says what a training guarantees: of what, against whom, at which ε, and what that leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedveil.core.guarantee import CaveatKind, Guarantee, Relation
from fedveil.core.types import View
from fedveil.report.model.number_texts import delta_text, epsilon_text

AGAINST = {
    View.ON_DEVICE: "whoever taps a device",
    View.CLIENT: "whoever gets an update off a device",
    View.SERVER: "the server",
    View.PEER: "another client",
    View.RELEASED: "readers of the model",
}
"""Who has a view, in a few words."""

_SPOKEN_OF = (View.SERVER, View.RELEASED, View.PEER, View.CLIENT, View.ON_DEVICE)
"""The strongest adversary outside the devices comes first."""

_NOT_PRIVATE = {
    CaveatKind.SEEDED: "seeded",
    CaveatKind.LEAKED_BOUND: "a clipping bound is read from the data",
    CaveatKind.PRIVATE_STATISTICS: "statistics of private records are in it",
}
"""Why an ε does not hold as it stands, in a few words."""

NOTHING = "nothing is guaranteed to anyone (ε = ∞ in every cell)"


def headline(guarantees: Sequence[Guarantee]) -> str:
    """ "record-level, against the server: ε = 0.82 at δ = 1e-5; a right guess 54.5 %" """
    cell = spoken_of(guarantees)
    if cell is None:
        return NOTHING
    parts = [f"{cell.unit}-level, against {AGAINST[cell.view]}: {_value(cell)}", *_meaning(cell)]
    server = next((one for one in guarantees if (one.unit, one.view) == (cell.unit, View.SERVER)), None)
    if cell.view in (View.PEER, View.RELEASED) and server is not None and not server.finite:
        parts.append("against the server: nothing")
    return f"{_mark(guarantees)}{'; '.join(parts)}"


def spoken_of(guarantees: Sequence[Guarantee]) -> Guarantee | None:
    """The cell of the headline: against the strongest adversary, the unit with the smaller ε; None where all are ∞.

    Noise on single records hides all of a client only as a group, at a larger ε; noise on clients the other way round.
    """
    for view in _SPOKEN_OF:
        cells = [cell for cell in guarantees if cell.view is view and cell.finite]
        if cells:
            return min(cells, key=lambda cell: cell.epsilon)
    return None


def _mark(guarantees: Sequence[Guarantee]) -> str:
    """ "NOT private: seeded. " where a finite ε does not hold as it stands, else nothing."""
    reasons = dict.fromkeys(
        _NOT_PRIVATE[caveat.kind]
        for cell in guarantees
        for caveat in cell.spoiling
        if cell.finite and caveat.kind.voids
    )
    return f"NOT private: {'; '.join(reasons)}. " if reasons else ""


def percent_up(share: float) -> str:
    """Per hundred with one digit, rounded up."""
    return f"{min(math.ceil(share * 1000 - 1e-6) / 10, 100.0):.1f} %"


def _value(cell: Guarantee) -> str:
    """ε, of all copies of a record where several clients hold one: that is what a person is owed."""
    own = f"ε = {epsilon_text(cell.epsilon)}"
    relation = "" if cell.relation is Relation.ADD_OR_REMOVE else f" ({cell.relation})"
    if cell.together is None:
        return f"{own} at δ = {delta_text(cell.delta)}{relation}"
    return (
        f"ε = {epsilon_text(cell.together)} at δ = {delta_text(cell.delta)}{relation} for all copies of a record"
        f" ({own} for one)"
    )


def _meaning(cell: Guarantee) -> list[str]:
    if cell.void is not None:
        return []
    risk = cell.risk if cell.together is None else cell.risk_together
    average = " on average over who is drawn" if any(caveat.kind.averages for caveat in cell.caveats) else ""
    return [] if risk is None else [f"a right guess {percent_up(risk.right)}{average}"]
