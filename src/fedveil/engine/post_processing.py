"""What becomes of noisy sums, computed once more at the few coordinates that a witness looks at.

Everything behind noise is free only if it uses nothing but what the noise left: declared divisors, optimisers,
addition. All of that works on each coordinate by itself, so it can be repeated for some of them alone, from the noisy
sums as they were measured. Whoever takes noise off again, or divides by a number that depends on the data, comes to
another result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fedveil.parts.aggregation import Aggregation
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.optimisers import State

ROUNDING_OF_A_MOVE = 1e-3
"""How far, relative to what was added to a parameter, the two results may lie apart."""

LAST_DIGITS = 1e-6
"""And relative to the numbers themselves: single precision."""


def trained(
    local: LocalTraining, start: Tensor, sums: Sequence[Tensor], rate: float, declared: int
) -> tuple[Tensor, Tensor]:
    """Parameters `[K, n]` after steps with these noisy sums `[K, n]` of `declared` records each.

    Also how large they were on the way, at most.
    """
    parameters, state = start, local.optimiser.initial(start)
    largest = start.abs()
    for step, total in enumerate(sums):
        gradient = total.to(start.dtype) / declared
        if local.decay:
            gradient = gradient + local.decay * parameters
        parameters, state = local.optimiser.apply(parameters, gradient, state, rate, step)
        largest = torch.maximum(largest, parameters.abs())
    return parameters, largest


def aggregated(
    aggregate: Aggregation,
    parameters: Tensor,
    total: Tensor,
    divisor: float,
    state: State,
    round: int,
    rounds: int,
    places: Tensor,
) -> Tensor:
    """The next model `[n]` at some places of `parameters` `[P]`, from the sum of updates `[n]` there."""
    there = tuple(part[places] for part in state)
    return aggregate.apply(parameters[places], total, divisor, there, round, rounds)[0]


def agree(
    mine: Tensor, its: Tensor, start: Tensor | float = 0.0, steps: int = 1, largest: Tensor | float = 0.0
) -> Tensor:
    """Whether two results `[..., n]` of `steps` steps from `start` are the same up to rounding, for each row.

    Vectorised code rounds differently at the end of a row, at random and in every step, by a share of the number as it
    is then: `largest` is how large it was on the way. Noise leads far away, and sometimes back.
    """
    start = torch.as_tensor(start, device=mine.device)
    moved, size = (mine - start).abs(), mine.abs() + start.abs() + largest
    room = ROUNDING_OF_A_MOVE * moved + LAST_DIGITS * math.sqrt(max(steps, 1)) * size
    near = torch.isfinite(mine) & ((mine - its).abs() <= room)
    return (near | ~(torch.isfinite(mine) | torch.isfinite(its))).all(dim=-1)


def sent_as_measured(sent: Tensor, measured: Tensor, *, compressed: bool) -> Tensor:
    """Whether what is sent `[..., n]` is what was measured with its noise, for each row; compression may leave entries
    out."""
    sent = sent.to(measured.dtype)
    return agree(measured, torch.where(sent != 0, sent, measured) if compressed else sent)
