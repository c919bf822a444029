"""The bounds that a certificate states: of cells and of sites, each with its composition and what it means.

From the composition alone every ε and every risk is computed again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from fedveil.accounting.compose import Term
from fedveil.core.checks import check_delta
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import CaveatKind, Relation, cell_name
from fedveil.core.types import Unit, View


@dataclass(frozen=True)
class Remark:
    """A caveat of a cell: what its ε rests on or leaves out."""

    kind: CaveatKind
    text: str


@dataclass(frozen=True)
class RiskFigures:
    """What an attacker gets at most, to whom both answers were as likely before.

    `advantage` is the largest difference of true-positive and false-positive rate, `right_guess` is 1/2 + advantage/2.
    `rates` are pairs: a false-positive rate, and the true-positive rate that goes with it at most. `mean` is μ where
    the trade-off is that of a Gaussian.
    """

    advantage: float
    right_guess: float
    rates: tuple[tuple[float, float], ...]
    mean: float | None

    def __post_init__(self) -> None:
        shares = (self.advantage, self.right_guess, *(share for pair in self.rates for share in pair))
        if not all(0 <= share <= 1 for share in shares) or not 0 <= (self.mean or 0.0) < math.inf:
            raise FedveilError("a rate lies between 0 and 1")


@dataclass(frozen=True)
class CertifiedBound:
    """ε of a composition at the cell's δ, and what it means. Where ε is ∞ there is no composition, and a reason."""

    epsilon: float
    relation: Relation
    accountant: str
    composition: tuple[Term, ...] | None
    described: str
    risk: RiskFigures | None
    reason: str

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise FedveilError(f"ε must not be negative: {self.epsilon}")
        if math.isinf(self.epsilon) != bool(self.reason):
            raise FedveilError("ε is ∞ exactly where a reason says why")
        if math.isfinite(self.epsilon) and (self.composition is None or self.risk is None):
            raise FedveilError("a finite ε has a composition and a risk")


@dataclass(frozen=True)
class CertifiedClaim:
    """A paper's own number for the cell, which is no guarantee, and why it is another one."""

    epsilon: float
    delta: float
    source: str
    difference: str


class Basis(StrEnum):
    """Which of a cell's bounds is certified."""

    PROMISED = "promised"
    SPENT = "spent"


@dataclass(frozen=True)
class CertifiedCell:
    """One unit against one view. `spent` is left out where it would tell who took part (for release).

    `copies` is the bound of all copies of a record together, where several clients hold one. `beside` are bounds under
    other relations, which say less and never stand in the cell's place.
    """

    unit: Unit
    view: View
    delta: float
    basis: Basis
    promised: CertifiedBound
    spent: CertifiedBound | None
    copies: CertifiedBound | None
    beside: tuple[CertifiedBound, ...]
    claimed: CertifiedClaim | None
    caveats: tuple[Remark, ...]

    def __post_init__(self) -> None:
        check_delta(self.delta)
        if self.basis is Basis.SPENT and self.spent is None:
            raise FedveilError("what was spent is certified, and is not stated")

    @property
    def name(self) -> str:
        return cell_name(self.unit, self.view)

    @property
    def certified(self) -> CertifiedBound:
        return self.spent if self.basis is Basis.SPENT and self.spent is not None else self.promised

    @property
    def bounds(self) -> tuple[CertifiedBound, ...]:
        return tuple(each for each in (self.promised, self.spent, self.copies, *self.beside) if each is not None)


SITE_CELLS = tuple((unit, view) for unit in Unit for view in (View.SERVER, View.RELEASED))
"""In which a site has bounds of its own."""


@dataclass(frozen=True)
class SiteBound:
    """One site's own bound in a cell."""

    unit: Unit
    view: View
    bound: CertifiedBound


@dataclass(frozen=True)
class CertifiedSite:
    """A site by name, with its own bounds."""

    name: str
    records: int
    bounds: tuple[SiteBound, ...]

    def __post_init__(self) -> None:
        if tuple((own.unit, own.view) for own in self.bounds) != SITE_CELLS:
            raise FedveilError(f"site {self.name}: it has every unit against the server and the released models once")
