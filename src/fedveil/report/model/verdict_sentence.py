"""The one sentence with which a report and a certificate begin: who guesses what, how often rightly at most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedveil.core.guarantee import Guarantee, Relation
from fedveil.core.types import Unit, View

USELESS = 0.999
"""A guess that may be right more often than this is not prevented in any useful sense."""

WHO_SAW = {
    View.ON_DEVICE: "Whoever taps the devices while they train",
    View.CLIENT: "Whoever gets every finished update off its device",
    View.SERVER: "Whoever sees everything the server saw",
    View.PEER: "Whoever takes part and sees the models sent to one client",
    View.RELEASED: "Whoever sees every published model",
}
"""The adversary of each view, as the beginning of a sentence."""

WAS_USED = {Unit.RECORD: "one person's record was used", Unit.CLIENT: "one whole client's records were used"}

_STRONGEST_FIRST = (View.SERVER, View.PEER, View.RELEASED)
"""A verdict speaks of the strongest of those outside the devices who are kept from something."""


@dataclass(frozen=True)
class CellRisk:
    """What a verdict needs of one cell. `right_guess` is a share, None where nothing is promised.

    Where several clients hold a record it is that of all copies together. `averaged`: it holds on average over who is
    drawn. `void`: the number does not hold as it stands.
    """

    unit: Unit
    view: View
    relation: Relation
    right_guess: float | None
    averaged: bool = False
    void: bool = False

    @property
    def useful(self) -> bool:
        return self.right_guess is not None and self.right_guess <= USELESS and not self.void


def risk_of_cell(cell: Guarantee) -> CellRisk:
    """Of all copies of a record together, because a person has one."""
    risk = cell.risk if cell.together is None else cell.risk_together
    return CellRisk(
        cell.unit,
        cell.view,
        cell.relation,
        None if risk is None or not cell.finite else risk.right,
        averaged=any(caveat.kind.averages for caveat in cell.caveats),
        void=cell.void is not None,
    )


def times_in_hundred(share: float) -> str:
    """59.9; rounded up, and never to 100 where it is less."""
    raised = math.ceil(share * 1000 - 1e-9) / 10
    return f"{raised:.1f}" if raised < 100 or share >= 1 else "99.9…"


def verdict_sentence(cells: Sequence[CellRisk], *, not_private: str | None = None, state: str | None = None) -> str:
    """The verdict. `not_private` says why nothing holds as it stands, `state` what is wrong with the run itself."""
    if not_private is not None:
        sentence = f"Not private: {not_private}. No number of this training may be relied on."
    else:
        sentence = _guarded(cells)
    return sentence if state is None else f"{state}: {sentence[0].lower()}{sentence[1:]}"


def _guarded(cells: Sequence[CellRisk]) -> str:
    for unit in Unit:
        for view in _STRONGEST_FIRST:
            cell = next((each for each in cells if (each.unit, each.view) == (unit, view)), None)
            if cell is not None and cell.useful:
                return f"{guess_sentence(cell)}{_stronger(cells, cell)}."
    return "Nothing useful is promised: nobody is kept from finding out whether one person's record was used."


def guess_sentence(cell: CellRisk) -> str:
    """Without its full stop: "Whoever sees … guesses right at most 59.9 times in 100 whether …; a coin is right …" """
    assert cell.right_guess is not None
    asked = f"whether {WAS_USED[cell.unit]}"
    if cell.relation is Relation.REPLACE_ONE:
        asked += ", or another in its place"
    elif cell.relation is Relation.ZERO_OUT:
        asked += ", or nothing but its noise was sent"
    average = ", on average over who is drawn" if cell.averaged else ""
    often = f"at most {times_in_hundred(cell.right_guess)} times in 100"
    return f"{WHO_SAW[cell.view]} guesses right {often} {asked}{average}; a coin is right 50 times"


def _stronger(cells: Sequence[CellRisk], chosen: CellRisk) -> str:
    """That the server is not kept from it, where the sentence speaks of weaker adversaries."""
    server = next((each for each in cells if (each.unit, each.view) == (chosen.unit, View.SERVER)), None)
    if chosen.view is View.SERVER or server is None or server.useful:
        return ""
    return "; against the server and its operator nothing useful is promised"
