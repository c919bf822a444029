"""A method: everything about the algorithm, nothing about data, model or run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fedveil.core.checks import FieldError
from fedveil.core.errors import FedveilError
from fedveil.core.types import Declaration, Population, Sampling, Unit
from fedveil.mechanisms.adaptive import CohortMedian, Quantile
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import Constant, Schedule, check_values
from fedveil.parts.aggregation import Aggregation
from fedveil.parts.batches import AllocatedBatch, BatchSampler, PartitionBatch
from fedveil.parts.cohorts import Cohort, FixedSize
from fedveil.parts.compression import Compression
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.optimisers import Sgd
from fedveil.parts.personal import Identity, Personalisation, Shared
from fedveil.parts.stopping import Stop

ONE_UPDATE = Sampling("all", records=1, batch=1, cap=1, uses=1)
"""A client's whole update, as noise on it or on the sum of the cohort sees it."""

VARYING_BATCHES = ("poisson", "allocated")
"""Kinds of batches whose size is left to chance."""

SMALLEST_BOUND = 1e-12
"""Below this, squares of single-precision numbers vanish and a norm can no longer be measured."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A composition of parts. The engine executes it and the accountant reads it; there is no second description.

    Three places can add noise, each None where it does not: `example` sanitises each example's gradient inside the
    client's training; `upload` clips and noises the finished update on the client; `server` clips every update that
    arrives and noises their sum. `compress` drops part of the update before it is sent, after all noise.
    """

    cohort: Cohort = field(default_factory=lambda: FixedSize(100))
    batch: BatchSampler = field(default_factory=lambda: PartitionBatch(5))
    local: LocalTraining = field(default_factory=LocalTraining)
    example: Gaussian | None = None
    upload: Gaussian | None = None
    compress: Compression | None = None
    aggregate: Aggregation = field(default_factory=Aggregation)
    server: Gaussian | None = None
    personal: Personalisation = field(default_factory=Shared)
    stop: Stop = field(default_factory=Stop)

    def __post_init__(self) -> None:
        check_values("local.rate", self.local.rate, self.rounds)
        check_values("aggregate.rate", self.aggregate.rate, self.rounds)
        for place, mechanism in self.mechanisms.items():
            unit = Unit.RECORD if place == "example" else Unit.CLIENT
            if mechanism.unit is not unit:
                what = "single examples" if place == "example" else "a client's whole update"
                raise FedveilError(f"{place}.unit: noise on {what} protects a {unit}, so it must be '{unit}'")
            if mechanism.each_row and place != "example":
                raise FedveilError(f"{place}.each_row: rows are single examples' gradients; use it at example")
            self._check_mechanism(place, mechanism)
        if self.upload is not None and self.upload.noise != "sum":
            raise FedveilError("upload.noise: an update is one row, so its noise is that of the sum: 'sum'")
        if self.noises_rows and self.batch.kind in VARYING_BATCHES:
            name = "a Poisson" if self.batch.kind == "poisson" else "an allocated"
            raise FedveilError(
                f"example.each_row: rows have noise of their own only in batches of fixed size; how many rows {name}"
                " batch has depends on the data, and its noise is drawn on the sum, for the declared size"
            )
        if len([place for place, mechanism in self.mechanisms.items() if mechanism.adaptive is not None]) > 1:
            raise FedveilError("server.clip.bound: only one bound of a method can follow the norms")
        if self.aggregate.weights != "equal" and self.mechanisms.keys() & {"upload", "server"}:
            raise FedveilError(
                "aggregate.weights: noise that hides a whole client is declared for updates that count the same; use"
                " 'equal'"
            )
        if self.server is not None and not isinstance(self.personal, Shared):
            raise FedveilError(
                f"personal: noise at the server protects the global model, but '{self.personal.kind}' models are made"
                " from updates without it and never pass through it; put the noise on the client (example or upload)"
            )

    def _check_mechanism(self, place: str, mechanism: Gaussian) -> None:
        check_values(f"{place}.course", mechanism.course, self.rounds)
        adaptive = mechanism.adaptive
        if isinstance(mechanism.clip.bound, Schedule):
            check_values(f"{place}.clip.bound", mechanism.clip.bound, self.rounds, smallest=SMALLEST_BOUND)
            return
        if place == "example":
            raise FedveilError(
                "example.clip.bound: a bound that follows the norms is for whole updates, not for examples"
            )
        if place == "upload" and isinstance(adaptive, CohortMedian):
            raise FedveilError(
                "upload.clip.bound: a client does not know the other clients' norms; use it at the server"
            )
        for round in (0, self.rounds - 1):
            try:
                mechanism.at(round, self.rounds)
            except FieldError as error:
                raise FedveilError(f"{place}.clip.bound.{error}") from None

    @property
    def rounds(self) -> int:
        return self.stop.rounds

    @property
    def mechanisms(self) -> dict[str, Gaussian]:
        """The places that add noise (or clip), in the order in which they act."""
        places = {"example": self.example, "upload": self.upload, "server": self.server}
        return {place: mechanism for place, mechanism in places.items() if mechanism is not None}

    @property
    def noises_rows(self) -> bool:
        """Whether every example's gradient gets its own noise, instead of a batch's sum getting all of it at once."""
        return self.example is not None and self.example.each_row

    @property
    def uploads_add_up(self) -> bool:
        """Whether nothing but the plain sum of the uploads is used, and no client's noise comes back in a later round.

        So uploads must not be compressed, noised at the server, or mixed into other clients' models. A client that
        starts from its own uploaded model carries its noise into later rounds, whose sums then show single noises.
        """
        return self.compress is None and self.server is None and isinstance(self.personal, Shared | Identity)

    def examples_add_up(self, records: Iterable[int]) -> bool:
        """Whether nothing but the plain sum of the clients' noisy gradients is used, for clients of so many records.

        One local step of plain SGD makes every update the same constant times the client's noisy sum. So no second
        step, no other optimiser, no decay, no clipping, noise or compression after it, no weights, no model of one's
        own; and the same declared batch for everybody, so that all sums have the same weight, noise and grid.
        """
        sizes = set(records)
        return (
            self.sends_plain_steps
            and all(self.local_steps(size) == 1 for size in sizes)
            and len({self.batch.declared(size) for size in sizes}) == 1
        )

    @property
    def sends_plain_steps(self) -> bool:
        """Whether an update after one local step is a constant times the noisy sum of the gradients."""
        return (
            self.example is not None
            and self.example.sigma > 0
            and not self.noises_rows
            and self.upload is None
            and self.server is None
            and self.compress is None
            and isinstance(self.local.optimiser, Sgd)
            and self.local.decay == 0
            and self.aggregate.weights == "equal"
            and isinstance(self.personal, Shared | Identity)
        )

    @property
    def counts_on_full_cohorts(self) -> bool:
        """Whether cohorts of fixed size under a limit must be full, because their noises are counted together."""
        upload = self.upload is not None and self.upload.sigma > 0 and self.uploads_add_up
        one_step = self.sends_plain_steps and (self.local.steps == 1 or self.local.epochs is not None)
        return isinstance(self.cohort, FixedSize) and self.cohort.most is not None and (upload or one_step)

    @property
    def adaptive_clip(self) -> Clip | None:
        """The clip whose bound follows the norms, if there is one."""
        return next((mechanism.clip for mechanism in self.mechanisms.values() if mechanism.adaptive is not None), None)

    @property
    def steady(self) -> bool:
        """Whether it declares the same in every round: no schedule changes, and norms are reported always or never."""
        schedules = [getattr(self.cohort, "growth", None)]
        for mechanism in self.mechanisms.values():
            schedules += [mechanism.course, mechanism.clip.bound]
        return all(isinstance(schedule, Constant | Quantile | CohortMedian | None) for schedule in schedules)

    def local_steps(self, records: int) -> int:
        """L for a client that holds `records` records."""
        return self.local.steps_for(records, self.batch.declared(records))

    def check(self, population: Population) -> None:
        """Refuse a population for which the cohort or the batches are too large."""
        for round in (0, self.rounds - 1):
            self.cohort.at(round, self.rounds).check(population.clients)
        for client, records in enumerate(population.records):
            if records < 1:
                raise FedveilError(f"data: {population.name(client)} holds no records")
            if self.batch.declared(records) > records:
                raise FedveilError(
                    f"batch.size: a batch of {self.batch.declared(records)} is larger than {population.name(client)},"
                    f" which holds {records} records"
                )
            if isinstance(self.batch, AllocatedBatch) and self.local_steps(records) < records // self.batch.size:
                raise FedveilError(
                    f"batch.size: {population.name(client)} allocates {records} records to {self.local_steps(records)}"
                    f" steps, so batches are larger than the declared {self.batch.size}; use epochs = 1, more steps or"
                    " larger batches"
                )

    def declare(
        self, round: int, records: int, layers: int, clients: int, bound: float | None = None
    ) -> tuple[Declaration, ...]:
        """What every noise-adding mechanism does in `round` to a client of `records` records, one of `clients`.

        `layers` is M, the number of layers of the model, which per-layer clipping counts. `bound` is the value of a
        bound that follows the norms; without it the declaration is in units of its start, with the same multipliers.
        """
        declarations = []
        for place, mechanism in self.mechanisms.items():
            now = mechanism.at(round, self.rounds, bound)
            if place == "example":
                steps = self.local_steps(records)
                sampling = self.batch.sampling(records, steps)
                declarations.append(now.declare(place=place, layers=layers, steps=steps, sampling=sampling))
            else:
                rows = self.cohort.at(round, self.rounds).divisor(clients) if place == "server" else 1.0
                adds_up = place == "upload" and self.uploads_add_up
                declarations.append(
                    now.declare(place=place, layers=layers, steps=1, sampling=ONE_UPDATE, rows=rows, adds_up=adds_up)
                )
        return tuple(declarations)
