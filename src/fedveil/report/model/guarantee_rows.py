"""The table of guarantees, short: equal cells of a unit share a row, reasons and caveats are numbered notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedveil.core.guarantee import Caveat, CaveatKind, Guarantee, Relation
from fedveil.core.types import Unit, View
from fedveil.report.model.guarantee_headline import percent_up
from fedveil.report.model.number_texts import epsilon_text

NOT_PRIVATE = "NOT private"


@dataclass(frozen=True)
class GuaranteeRow:
    """Equal cells of one unit; `notes` are the numbers of what must be read with them."""

    cell: Guarantee
    views: tuple[View, ...]
    notes: tuple[int, ...]

    @property
    def name(self) -> str:
        """ "record × client, server"; a relation that is not the usual one is named."""
        views = ", ".join(self.views) if len(self.views) < len(View) else "all views"
        marked = self.cell.finite and self.cell.relation is not Relation.ADD_OR_REMOVE
        return f"{self.cell.unit} × {views}" + (f" ({self.cell.relation})" if marked else "")

    @property
    def epsilon(self) -> str:
        return epsilon_text(self.cell.epsilon)

    @property
    def guess(self) -> str:
        """How often a guess is right at most, or that the ε does not hold as it stands."""
        if not self.cell.finite:
            return ""
        return NOT_PRIVATE if self.cell.void is not None else _right(self.cell)


@dataclass(frozen=True)
class GuaranteeRows:
    """All rows; the notes, number 1 first, what spoils an ε before all others; and what every finite cell rests on."""

    rows: tuple[GuaranteeRow, ...]
    notes: tuple[str, ...]
    shared: tuple[str, ...]

    @staticmethod
    def of(guarantees: Sequence[Guarantee], beside: Sequence[Guarantee] = ()) -> GuaranteeRows:
        """`beside` are cells under another relation, each below those that it stands beside."""
        shared = _shared(guarantees)
        spoiling = dict.fromkeys(caveat.text for caveat in all_spoiling(guarantees))
        numbers = {text: number for number, text in enumerate(spoiling, 1)}
        rows: list[GuaranteeRow] = []
        for alike in _alike(guarantees):
            views = [cell.view for cell in alike]
            others = [cell for cell in beside if cell.unit is alike[0].unit and cell.view in views]
            rows += [_row(cells, shared, numbers) for cells in (alike, *_alike(others))]
        return GuaranteeRows(tuple(rows), tuple(numbers), tuple(caveat.text for caveat in shared))


def all_spoiling(guarantees: Sequence[Guarantee]) -> list[Caveat]:
    """All that an ε is never printed without, the worst first, each once."""
    finite = [cell for cell in guarantees if cell.finite]
    spoiling = [caveat for kind in CaveatKind for cell in finite for caveat in cell.spoiling if caveat.kind is kind]
    return list(dict.fromkeys(spoiling))


def _alike(guarantees: Sequence[Guarantee]) -> list[list[Guarantee]]:
    """Equal cells together; those that promise nothing come last."""
    equal: dict[tuple[object, ...], list[Guarantee]] = {}
    for cell in guarantees:
        look: tuple[object, ...] = (cell.reason,)
        if cell.finite:
            look = (epsilon_text(cell.epsilon), _right(cell), cell.relation, cell.composition, cell.caveats)
        equal.setdefault((cell.unit, *look), []).append(cell)
    return sorted(equal.values(), key=lambda cells: (list(Unit).index(cells[0].unit), not cells[0].finite))


def _row(alike: Sequence[Guarantee], shared: Sequence[Caveat], numbers: dict[str, int]) -> GuaranteeRow:
    cell = alike[0]
    texts = [caveat.text for caveat in cell.caveats if caveat not in shared] if cell.finite else [cell.reason]
    for text in texts:
        numbers.setdefault(text, len(numbers) + 1)
    return GuaranteeRow(cell, tuple(one.view for one in alike), tuple(sorted({numbers[text] for text in texts})))


def _shared(guarantees: Sequence[Guarantee]) -> list[Caveat]:
    """The caveats of every finite cell, but for those that spoil it: they are marked at their rows."""
    finite = [cell for cell in guarantees if cell.finite]
    return [
        caveat
        for caveat in (finite[0].caveats if finite else ())
        if not caveat.kind.spoils and all(caveat in cell.caveats for cell in finite)
    ]


def _right(cell: Guarantee) -> str:
    return "" if cell.risk is None else f"≤ {percent_up(cell.risk.right)}"
