"""Adam for many attacks at once, as the attack by inverting gradients uses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedveil.attacks.inversion.minimise import UPDATES, Minima, Mismatch, Watch, nobody
from fedveil.core.checks import not_negative, positive
from fedveil.parts import optimisers


@dataclass(frozen=True)
class AdamDescent:
    """Steps of `rate` that shrink tenfold after 3/8, 5/8 and 7/8 of the iterations; keeps the best point it saw.

    `signed` takes only the sign of each slope (Geiping et al., 2020). An attack ends when its value falls to `goal`.
    """

    kind: ClassVar[str] = "adam"
    rate: float = 0.1
    signed: bool = True
    goal: float = 1e-10

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        not_negative("goal", self.goal)

    def minimise(self, objective: Mismatch, start: Tensor, iterations: int, watch: Watch = nobody) -> Minima:
        everyone = torch.arange(len(start))
        best, lowest = start.clone(), torch.full((len(start),), float("inf"))
        made, evaluations = torch.zeros_like(everyone), 0
        members, points = everyone, start.clone()
        rule = optimisers.Adam()
        state = rule.initial(points)
        limit = iterations * UPDATES
        for update in range(limit + 1):
            values, slopes = objective(points, members)
            evaluations += len(members)
            made[members] = update
            better = torch.isfinite(values) & (values < lowest[members])
            best[members[better]], lowest[members[better]] = points[better], values[better]
            watch(members, made[members], points)
            staying = torch.isfinite(values) & (values > self.goal)
            members, points, slopes = members[staying], points[staying], slopes[staying]
            state = tuple(part[staying] for part in state)
            if not len(members) or update == limit:
                break
            drops = sum(8 * update >= eighths * limit for eighths in (3, 5, 7))
            slopes = slopes.sign() if self.signed else slopes
            points, state = rule.apply(points, slopes, state, self.rate * 0.1**drops, update)
        return Minima(best, lowest, made, evaluations)
