"""What the server makes of the updates of a round."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from fedveil.mechanisms.schedules import Constant, Schedule, schedule
from fedveil.parts.optimisers import Optimiser, Sgd, State


@dataclass(frozen=True, kw_only=True)
class Aggregation:
    """The sum of the updates over a *constant* divisor (the declared cohort size), then a server optimiser.

    The mean update is taken as a negative gradient; plain SGD at rate 1 adds it to the model, which is FedAvg
    (equally "mean of updates" and "mean of models", since all clients start from the same model).
    """

    optimiser: Optimiser = field(default_factory=Sgd)
    rate: Schedule = field(default_factory=lambda: Constant(1.0))

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", schedule(self.rate))

    def apply(
        self, parameters: Tensor, total: Tensor, divisor: float, state: State, round: int, rounds: int
    ) -> tuple[Tensor, State]:
        """The next model from the sum of updates `total`."""
        gradient = (total / -divisor).to(parameters.dtype)
        return self.optimiser.apply(parameters, gradient, state, self.rate.at(round, rounds), round)
