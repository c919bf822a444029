"""When a training ends."""

from __future__ import annotations

from dataclasses import dataclass

from fedveil.core.checks import count


@dataclass(frozen=True)
class Stop:
    """After `rounds` rounds (T). Schedules that change over the training stretch over these rounds."""

    rounds: int = 100

    def __post_init__(self) -> None:
        count("rounds", self.rounds)
