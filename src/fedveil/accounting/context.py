"""All that the accountant must know of a training: one object, made of public facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedveil.accounting.participation import Round
from fedveil.core.checks import check_delta, check_epsilon, count
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Caveat, cell_name
from fedveil.core.types import Population, Unit, View
from fedveil.mechanisms.right_counts import RightCounts
from fedveil.method import Method


@dataclass(frozen=True)
class Budget:
    """At most (ε, δ) of one unit against one view, for each client.

    Geyer's form, "fix ε and stop when δ would pass its bound", is the same condition: δ(ε) ≤ δ exactly when ε(δ) ≤ ε.
    """

    epsilon: float
    delta: float
    unit: Unit = Unit.RECORD
    view: View = View.SERVER

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)

    @property
    def cell(self) -> str:
        return cell_name(self.unit, self.view)


@dataclass(frozen=True)
class RiskTarget:
    """At most so much risk of one unit against one view: an `advantage`, or a true-positive rate `tpr` at `fpr`."""

    delta: float
    unit: Unit = Unit.RECORD
    view: View = View.SERVER
    advantage: float | None = None
    tpr: float | None = None
    fpr: float | None = None

    def __post_init__(self) -> None:
        check_delta(self.delta)
        if (self.advantage is None) == (self.tpr is None) or (self.tpr is None) != (self.fpr is None):
            raise FedveilError("risk: either an advantage, or a true-positive rate with its false-positive rate")
        if self.advantage is not None and not 0 < self.advantage < 1:
            raise FedveilError(f"advantage: must lie between 0 and 1, not {self.advantage}")
        if self.tpr is not None and self.fpr is not None and not 0 < self.fpr < self.tpr < 1:
            raise FedveilError(
                f"tpr: must lie between the false-positive rate {self.fpr} and 1, not {self.tpr}; at the false-positive"
                " rate itself nothing could be told"
            )

    @property
    def cell(self) -> str:
        return cell_name(self.unit, self.view)


@dataclass(frozen=True)
class Context:
    """The method, who holds how much, and what else every cell of the table depends on.

    `layers` is M, the number of layers that a clip by layer counts. `copies` is how many clients hold the same record,
    at most. `seeded` noise can be repeated, and so taken off again. `strict` promises nothing where a clipping bound is
    read from the data without noise, or where a caveat names a use of private records that no noise covers. `budget`
    may leave single clients out of later rounds. `caveats` are those of the records and of the network. `counts` is how
    real sites measure the model on records of their own, which composes with the training.
    """

    method: Method
    population: Population
    layers: int
    delta: float
    copies: int = 1
    seeded: bool = False
    strict: bool = False
    budget: Budget | None = None
    caveats: tuple[Caveat, ...] = ()
    counts: RightCounts | None = None

    @property
    def limit(self) -> int | None:
        """In how many rounds a client takes part at most, where the sampler enforces that."""
        return self.method.cohort.most

    @property
    def refusal(self) -> str | None:
        """Why nothing is promised in any cell, whatever noise is added; None where noise decides."""
        uncovered = [caveat.text for caveat in self.caveats if caveat.kind.uncovered]
        return f"strict is asked for, and {'; '.join(uncovered)}" if self.strict and uncovered else None

    def check(self, rounds: int) -> None:
        """Refuse what can't be accounted for."""
        check_delta(self.delta)
        if self.population.clients == 0:
            raise FedveilError("data: there are no clients to account for")
        if isinstance(rounds, bool) or not isinstance(rounds, int) or not 0 <= rounds < 10**7:
            raise FedveilError(f"rounds: must be a whole number below ten million, not {rounds}")
        count("layers", self.layers)
        count("copies", self.copies)
        self.method.check(self.population)

    def round(self, round: int, records: int) -> Round:
        """What the method declares for a round to a client of so many records."""
        declared = self.method.declare(round, records, self.layers, self.population.clients)
        return Round(declared, self.method.cohort.at(round, self.method.rounds))

    def rounds(self, numbers: Sequence[int], records: int) -> tuple[tuple[Round, int], ...]:
        """The same for several rounds, equal ones counted; where nothing changes, one stands for all."""
        if self.method.steady and numbers:
            return ((self.round(numbers[0], records), len(numbers)),)
        counted: dict[Round, int] = {}
        for number in numbers:
            one = self.round(number, records)
            counted[one] = counted.get(one, 0) + 1
        return tuple(counted.items())
