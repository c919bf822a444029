"""The two questions that cost something: to train for a round, and to measure a model. Each knows its own name and
price, how often the plan has it, and how it is answered.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from torch import Tensor

from fedveil.core.declaration_records import receipt_record
from fedveil.core.errors import FedveilError
from fedveil.core.types import Declaration
from fedveil.engine.client import Broadcast
from fedveil.runtimes.expected_answers import sends_cells
from fedveil.runtimes.site_network import evaluation_name, question_name
from fedveil.site.refusals import RefusalKind, Refused
from fedveil.site.site_work import PlannedWork, sendable

Sendable = tuple[dict[str, Any], dict[str, Tensor]]
"""A header and tensors, as they leave."""


@dataclass(frozen=True)
class TrainingQuestion:
    """A round. Another model or bound is another question."""

    work: PlannedWork
    broadcast: Broadcast
    counts: ClassVar[bool] = False

    @property
    def round(self) -> int:
        return self.broadcast.round

    @cached_property
    def name(self) -> str:
        asked = self.broadcast
        return question_name(self.work.plan.digest, asked.round, asked.bound, asked.parameters)

    @cached_property
    def declared(self) -> tuple[Declaration, ...]:
        return self.work.declared(self.broadcast)

    @property
    def charged(self) -> tuple[Declaration, ...]:
        return self.work.charged(self.declared)

    def check_number(self, rounds: Sequence[int]) -> None:
        """Refuse a round more than the plan lets a site take part in; `rounds` are those it was charged for."""
        limit = self.work.plan.context.limit
        if limit is not None and self.round not in rounds and len(set(rounds)) >= limit:
            raise Refused(RefusalKind.WRONG_QUESTION, f"the plan lets a site take part in {limit} rounds")

    def answer(self, charge: int, given: Collection[int]) -> Sendable:
        """The work, for this charge; `given` are the charges whose answers may have left."""
        upload = self.work.upload(self.broadcast, given)
        if not all(receipt.confirmed for receipt in upload.receipts):
            raise FedveilError(f"round {self.round}: what was measured on the tensors is not as declared")
        if self.work.own_model is not None:
            self.work.own_model.keep(self.round, charge, self.broadcast.parameters, upload.update, given)
        plan = self.work.plan
        whole = sends_cells(plan.spec.method, self.declared, plan.population.records)
        header, tensors = sendable(upload, cells=whole)
        return {"kind": "update", **header}, tensors


@dataclass(frozen=True)
class MeasuringQuestion:
    """How good a model is after so many rounds, on records that are held out here.

    The plan has a number of measurements, and no more is ever answered: so what the coordinator promises of them holds,
    however often it begins again.
    """

    work: PlannedWork
    round: int
    parameters: Tensor
    counts: ClassVar[bool] = True

    @cached_property
    def name(self) -> str:
        return evaluation_name(self.work.plan.digest, self.round, self.parameters)

    @property
    def declared(self) -> tuple[Declaration, ...]:
        return (self.work.planned_counts[0],)

    @property
    def charged(self) -> tuple[Declaration, ...]:
        return self.work.charged(self.declared)

    def check_number(self, rounds: Sequence[int]) -> None:
        """Refuse what was measured before with another model, and more than the plan has."""
        if self.round in rounds:
            text = f"a model was measured here after {self.round} rounds; the plan has that once"
            raise Refused(RefusalKind.WRONG_QUESTION, text)
        most = len(self.work.planned_counts)
        if len(rounds) >= most:
            raise Refused(RefusalKind.WRONG_QUESTION, f"the plan lets models be measured {most} times")

    def answer(self, charge: int, given: Collection[int]) -> Sendable:
        """Counts rest on nothing that was charged before."""
        cells, receipt = self.work.cells(self.round, self.parameters)
        if not receipt.confirmed:
            raise FedveilError(f"after {self.round} rounds: the noise on the counts is not as declared")
        return {"kind": "counts", "receipts": [receipt_record(receipt)]}, {"counts": cells}
