"""What the server holds between two rounds, and whom it draws for the next. Nothing here needs PyTorch to be loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedveil.core.streams import Address, Purpose, Streams
from fedveil.mechanisms.adaptive import CohortMedian
from fedveil.method import Method
from fedveil.parts.optimisers import State

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ServerState:
    """All that the next round depends on; a checkpoint holds exactly this."""

    round: int  # rounds completed
    parameters: Tensor  # [P]
    optimiser: State
    bound: float | None = None  # C_t, where it follows the norms
    average: Tensor | None = None  # [P]: the mean of the last models, where the method averages them

    @property
    def released(self) -> Tensor:
        """The model that is evaluated, and handed out when training ends here."""
        return self.parameters if self.average is None else self.average


def initial_state(method: Method, parameters: Tensor) -> ServerState:
    clip = method.adaptive_clip
    bound = None if clip is None or isinstance(clip.bound, CohortMedian) else clip.start
    return ServerState(0, parameters, method.aggregate.optimiser.initial(parameters), bound)


def draw_cohort(method: Method, round: int, candidates: Sequence[int], streams: Streams) -> list[int]:
    """Who of the candidates takes part in a round: the same whenever it is drawn from the same streams."""
    generator = streams.generator(Purpose.COHORT, Address(round))
    return method.cohort.at(round, method.rounds).draw(candidates, generator)
