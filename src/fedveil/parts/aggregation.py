"""What the server makes of the updates of a round, and of the models of a training."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedveil.core.checks import one_of, within
from fedveil.core.types import Population
from fedveil.mechanisms.schedules import Constant, Schedule, schedule
from fedveil.parts.optimisers import Optimiser, Sgd, State

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Aggregation:
    """The sum of the updates over a *constant* divisor (the declared cohort size), then a server optimiser.

    The mean update is taken as a negative gradient; plain SGD at rate 1 adds it to the model, which is FedAvg
    (equally "mean of updates" and "mean of models", since all clients start from the same model).

    `weights`: every update counts the same ("equal"), or as much as its client has records ("records"): a client of
    twice the mean number of records counts twice. Those numbers are public, so the weights are constants.

    `average` is the share of the last rounds whose models are averaged: the mean is the model that is evaluated and
    handed out. Noise of single rounds cancels in it. It is made of published models, so it costs no privacy. 0: the
    last model.
    """

    optimiser: Optimiser = field(default_factory=Sgd)
    rate: Schedule = field(default_factory=lambda: Constant(1.0))
    weights: str = "equal"
    average: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", schedule(self.rate))
        one_of("weights", self.weights, ("equal", "records"))
        within("average", self.average, 0, 1)

    def apply(
        self, parameters: Tensor, total: Tensor, divisor: float, state: State, round: int, rounds: int
    ) -> tuple[Tensor, State]:
        """The next model from the sum of updates `total`."""
        gradient = (total / -divisor).to(parameters.dtype)
        return self.optimiser.apply(parameters, gradient, state, self.rate.at(round, rounds), round)

    def weight(self, client: int, population: Population) -> float:
        """What an update of this client is multiplied with; their mean over all clients is 1."""
        if self.weights == "equal":
            return 1.0
        return population.records[client] * population.clients / sum(population.records)

    def averaged(self, mean: Tensor | None, parameters: Tensor, round: int, rounds: int) -> Tensor | None:
        """The mean of the last models after a round, from that before it; None before the first that counts."""
        first = rounds - math.ceil(self.average * rounds)
        if round < first or self.average == 0:
            return None
        if mean is None:
            return parameters
        return mean + (parameters - mean) / (round - first + 1)
