"""How a client trains between receiving a model and returning its update."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedveil.core.checks import LARGEST, FieldError, count, not_negative
from fedveil.mechanisms.schedules import Constant, Schedule, schedule
from fedveil.parts.optimisers import Optimiser, Sgd


@dataclass(frozen=True, kw_only=True)
class LocalTraining:
    """`steps` local steps (L), or, where `epochs` is given, that many passes over the client's records instead.

    `rate` is the learning rate, constant or a schedule over the rounds. `decay` is L2 weight decay.
    """

    steps: int = 100
    epochs: int | None = None
    optimiser: Optimiser = field(default_factory=Sgd)
    rate: Schedule = field(default_factory=lambda: Constant(0.1))
    decay: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", schedule(self.rate))
        count("steps", self.steps)
        count("epochs", 1 if self.epochs is None else self.epochs)
        not_negative("decay", self.decay)
        if self.decay > LARGEST:
            raise FieldError("decay", f"must be at most {LARGEST:g}, not {self.decay:g}")

    def steps_for(self, records: int, batch: int) -> int:
        """L for a client of `records` records and declared batch size `batch`."""
        return self.steps if self.epochs is None else self.epochs * max(records // batch, 1)
