"""Guarantees: what is protected, against whom, under which relation of neighbours. An ε without these says nothing.

The accountant makes these objects and the report shows them. Code looks at their types, people read their texts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fedveil.core.errors import FedveilError
from fedveil.core.risks import Risk
from fedveil.core.rounding import rounded_up
from fedveil.core.types import Unit, View


class Relation(StrEnum):
    """Which two data sets must look alike.

    `ADD_OR_REMOVE`: with and without one unit. The numbers of records N_i and of clients K are public constants, so
    the place of the unit that is gone contributes zero; rates, noise and divisors stay what they are.
    `REPLACE_ONE`: one unit exchanged for any other, which can change a sum by 2S.
    `ZERO_OUT`: one client stays, contributes zero and still adds its noise. It says less than `ADD_OR_REMOVE` where the
    noises of other clients are counted, so it stands beside it and never in its place.
    """

    ADD_OR_REMOVE = "add-or-remove"
    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"


class CaveatKind(StrEnum):
    """Why an ε must be read with care. Those that spoil it most come first."""

    LEAKED_BOUND = "leaked-bound"  # a clipping bound is read from the data without noise
    SEEDED = "seeded"  # the noise can be repeated, and so taken off again
    PRIVATE_STATISTICS = "private-statistics"  # features or network were made with statistics of private records
    PRIVATE_EVALUATION = "private-evaluation"  # what is measured on private records is published or chosen by
    UNDECLARED = "undeclared"  # nobody said whether one of these two is so
    ONE_COPY = "one-copy"  # other clients hold copies of the record
    UNTYPED = "untyped"  # kept by fedveil 0.1, which knew no kinds: only its text says what it is
    CONDITION = "condition"  # over how many rounds, and how often a client takes part
    ARITHMETIC = "arithmetic"  # the proof is about real numbers; only in results of fedveil 0.2 and before
    PUBLIC_COUNTS = "public-counts"  # how many records each client holds is public
    TUNING = "tuning"  # other trainings on the same records are not counted
    NO_COPIES = "no-copies"  # no record is held twice
    COPIES = "copies"  # records are held several times, and the cell does not speak of single ones
    LARGE_DELTA = "large-delta"  # δ is not below one over the number of units
    HIDDEN_DRAW = "hidden-draw"  # ε holds over a draw that the view never sees
    MEAN_OF_DRAWS = "mean-of-draws"  # ε is averaged over a draw that may be seen and leaves nobody out
    PEER = "peer"  # by what a peer's cell is bounded
    OTHERS_NOISE = "others-noise"  # counts on the noise of other clients
    PLAIN_SUM = "plain-sum"  # counts on nothing but a plain sum of one step's gradients being seen
    FULL_COHORTS = "full-cohorts"  # counts on rounds with too few candidates not being run
    ANSWERS = "answers"  # who answers in time is known, and must not depend on records
    STATEMENTS = "signed-statements"  # what real sites say of themselves is signed, and not proved
    QUORUM = "quorum"  # how many sites must answer before a round is published
    DEADLINE = "deadline"  # whether and when a site answers is seen, and covered by no noise
    GROUP = "group"  # a client hidden as the group of its records
    RENYI = "renyi"  # certified by Rényi divergences

    @property
    def voids(self) -> bool:
        """Whether an ε with such a caveat does not hold as it stands."""
        return self in (CaveatKind.LEAKED_BOUND, CaveatKind.SEEDED, CaveatKind.PRIVATE_STATISTICS)

    @property
    def uncovered(self) -> bool:
        """Whether it names a use of private records that no noise covers: beside it `strict` promises nothing."""
        return self in _UNCOVERED

    @property
    def averages(self) -> bool:
        """Whether an ε with such a caveat is a mean over who is drawn."""
        return self in (CaveatKind.HIDDEN_DRAW, CaveatKind.MEAN_OF_DRAWS)

    @property
    def spoils(self) -> bool:
        """Whether an ε must never be printed without such a caveat, not even on a short line."""
        return self in _SPOILING


_UNCOVERED = (CaveatKind.PRIVATE_STATISTICS, CaveatKind.PRIVATE_EVALUATION, CaveatKind.UNDECLARED)
_SPOILING = (
    CaveatKind.LEAKED_BOUND,
    CaveatKind.SEEDED,
    *_UNCOVERED,
    CaveatKind.ONE_COPY,
    CaveatKind.UNTYPED,
)


@dataclass(frozen=True)
class Caveat:
    """What a guarantee rests on or leaves out: `kind` for code, `text` for people."""

    kind: CaveatKind
    text: str

    def to_dict(self) -> dict[str, str]:
        return {"kind": str(self.kind), "text": self.text}

    @staticmethod
    def from_dict(table: Mapping[str, Any] | str) -> Caveat:
        if isinstance(table, str):
            return Caveat(CaveatKind.UNTYPED, table)
        return Caveat(CaveatKind(table["kind"]), str(table["text"]))


SEEDED = Caveat(CaveatKind.SEEDED, "not private: seeded")
"""The caveat of everything that a seed makes predictable."""


@dataclass(frozen=True)
class Secondary:
    """The same composition by another accountant, for comparison with papers; never the certificate."""

    accountant: str
    epsilon: float
    note: str = ""


@dataclass(frozen=True, repr=False)
class Guarantee:
    """(ε, δ)-differential privacy of one `unit` against one `view`.

    `epsilon` is ∞ where nothing is promised, and `reason` then says why; for a finite one `reason` is empty.
    `accountant` names what certified it, `composition` says in words what was composed, `caveats` what it rests on.
    `together` is ε of all copies of a record, where several clients hold one and the cell speaks of one copy.
    `risk` is what a finite ε leaves to an attacker, `risk_together` the same for all copies. `composed` is what the
    accountant composed, in its own types, and `composed_together` the same for all copies: from them alone ε can be
    computed again. A guarantee that was read back from a file has none of these three.
    """

    unit: Unit
    view: View
    relation: Relation
    epsilon: float
    delta: float
    accountant: str
    composition: str
    caveats: tuple[Caveat, ...] = ()
    reason: str = ""
    secondary: tuple[Secondary, ...] = ()
    together: float | None = None
    risk: Risk | None = None
    risk_together: Risk | None = field(default=None, compare=False, repr=False)
    composed: tuple[Any, ...] | None = field(default=None, compare=False, repr=False)
    composed_together: tuple[Any, ...] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise FedveilError(f"{self.name}: ε came out as {self.epsilon}; this is a bug, trust nothing")
        if math.isinf(self.epsilon) and not self.reason:
            raise FedveilError(f"{self.name}: ε is ∞ without a reason; this is a bug")

    @property
    def name(self) -> str:
        return cell_name(self.unit, self.view)

    @property
    def finite(self) -> bool:
        return math.isfinite(self.epsilon)

    def caveat(self, kind: CaveatKind) -> Caveat | None:
        """The first caveat of a kind."""
        return next((caveat for caveat in self.caveats if caveat.kind is kind), None)

    @property
    def void(self) -> Caveat | None:
        """Why the ε does not hold as it stands; None where it does."""
        return next((caveat for caveat in self.spoiling if caveat.kind.voids), None)

    @property
    def spoiling(self) -> tuple[Caveat, ...]:
        """The caveats without which the ε is never printed, the worst first."""
        return tuple(caveat for kind in CaveatKind if kind.spoils for caveat in self.caveats if caveat.kind is kind)

    def __str__(self) -> str:
        if not self.finite:
            return f"{self.name}: ε = ∞ ({self.relation}; {self.reason})"
        value = f"ε = {rounded_up(self.epsilon)} at δ = {self.delta:g} ({self.relation}; {self.composition})"
        return "; ".join([f"{self.name}: {value}", *(caveat.text for caveat in self.spoiling)])

    def __repr__(self) -> str:
        """Short: the cell, its ε, and that it does not hold as it stands where that is so."""
        at = f" at δ = {self.delta:g}, {self.relation}" if self.finite else ""
        return f"<{self.name}: ε = {rounded_up(self.epsilon)}{at}{'' if self.void is None else ', NOT private'}>"

    def to_dict(self) -> dict[str, object]:
        """JSON-ready; infinities are the string "inf"."""
        fields: dict[str, object] = {
            "unit": str(self.unit),
            "view": str(self.view),
            "relation": str(self.relation),
            "epsilon": plain_number(self.epsilon),
            "delta": self.delta,
            "accountant": self.accountant,
            "composition": self.composition,
            "caveats": [caveat.to_dict() for caveat in self.caveats],
            "reason": self.reason,
        }
        if self.secondary:
            fields["secondary"] = [
                {"accountant": other.accountant, "epsilon": plain_number(other.epsilon), "note": other.note}
                for other in self.secondary
            ]
        if self.together is not None:
            fields["epsilon_of_all_copies"] = plain_number(self.together)
        if self.risk is not None:
            fields["risk"] = self.risk.to_dict()
        return fields

    @staticmethod
    def from_dict(table: Mapping[str, Any]) -> Guarantee:
        """What `to_dict` made; KeyError, TypeError or ValueError for anything else."""
        if not isinstance(table, Mapping):
            raise TypeError(f"not a table: {table!r}")
        together = table.get("epsilon_of_all_copies")
        return Guarantee(
            Unit(table["unit"]),
            View(table["view"]),
            Relation(table["relation"]),
            float(table["epsilon"]),
            float(table["delta"]),
            str(table["accountant"]),
            str(table["composition"]),
            tuple(Caveat.from_dict(caveat) for caveat in table["caveats"]),
            str(table["reason"]),
            tuple(
                Secondary(str(other["accountant"]), float(other["epsilon"]), str(other["note"]))
                for other in table.get("secondary", ())
            ),
            None if together is None else float(together),
            Risk.from_dict(table["risk"]) if table.get("risk") is not None else None,
        )


@dataclass(frozen=True)
class Claim:
    """A paper's number for a training. `difference` says in one sentence why the verified one is another.

    `mean` is μ where the paper states its guarantee as Gaussian differential privacy.
    """

    source: str
    unit: Unit
    view: View
    epsilon: float
    delta: float
    formula: str
    difference: str
    mean: float | None = None

    @property
    def name(self) -> str:
        return cell_name(self.unit, self.view)

    def to_dict(self) -> dict[str, object]:
        fields: dict[str, object] = {
            "unit": str(self.unit),
            "view": str(self.view),
            "epsilon": plain_number(self.epsilon),
            "delta": self.delta,
            "source": self.source,
            "formula": self.formula,
            "difference": self.difference,
        }
        return fields if self.mean is None else {**fields, "mean": plain_number(self.mean)}


def cell_name(unit: Unit, view: View) -> str:
    """ "record × server" """
    return f"{unit} × {view}"


def plain_number(value: float) -> float | str:
    """JSON has no infinity; `float` reads both."""
    return "inf" if math.isinf(value) else value
