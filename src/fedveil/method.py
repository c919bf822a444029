"""A method: everything about the algorithm, nothing about data, model or run."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedveil.core.errors import FedveilError
from fedveil.core.types import Declaration, Population, Unit
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import check_values
from fedveil.parts.aggregation import Aggregation
from fedveil.parts.batches import BatchSampler, PartitionBatch
from fedveil.parts.cohorts import Cohort, FixedSize
from fedveil.parts.local import LocalTraining
from fedveil.parts.stopping import Stop


@dataclass(frozen=True, kw_only=True)
class Method:
    """A composition of parts. The engine executes it and the accountant reads it; there is no second description.

    `example` sanitises each example's gradient inside the client's training; None trains without privacy.
    """

    cohort: Cohort = field(default_factory=lambda: FixedSize(100))
    batch: BatchSampler = field(default_factory=lambda: PartitionBatch(5))
    local: LocalTraining = field(default_factory=LocalTraining)
    example: Gaussian | None = None
    aggregate: Aggregation = field(default_factory=Aggregation)
    stop: Stop = field(default_factory=Stop)

    def __post_init__(self) -> None:
        if self.example is not None and self.example.unit is not Unit.RECORD:
            raise FedveilError("example.unit: noise on single examples protects records, so it must be 'record'")
        check_values("local.rate", self.local.rate, self.rounds)
        check_values("aggregate.rate", self.aggregate.rate, self.rounds)
        if self.example is not None:
            # Below this, squares of single-precision numbers vanish and a norm can no longer be measured.
            check_values("example.clip.bound", self.example.clip.bound, self.rounds, smallest=1e-12)

    @property
    def rounds(self) -> int:
        return self.stop.rounds

    def local_steps(self, records: int) -> int:
        """L for a client that holds `records` records."""
        return self.local.steps_for(records, self.batch.declared(records))

    def check(self, population: Population) -> None:
        """Refuse what this population cannot give."""
        self.cohort.check(population.clients)
        for client, records in enumerate(population.records):
            if records < 1:
                raise FedveilError(f"data: client {client} holds no records")
            if self.batch.declared(records) > records:
                raise FedveilError(
                    f"batch.size: a batch of {self.batch.declared(records)} is larger than client {client},"
                    f" which holds {records} records"
                )

    def declare(self, round: int, records: int, layers: int) -> tuple[Declaration, ...]:
        """What every noise-adding mechanism does in `round` to a client of `records` records.

        `layers` is M, the number of layers of the model, which per-layer clipping counts.
        """
        if self.example is None:
            return ()
        steps = self.local_steps(records)
        return (
            self.example.declare(
                place="example",
                bound=self.example.clip.at(round, self.rounds),
                layers=layers,
                steps=steps,
                sampling=self.batch.sampling(records, steps),
            ),
        )
