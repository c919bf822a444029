"""How long an honest site's answer can be, from public constants alone.

What a site sends is a clipped sum plus noise, brought to an update by steps whose factors are in the plan. A clipped
sum of R rows is at most R·S long, and noise N(0, s²) on P coordinates is longer than s·(√P + t) with a probability of
at most exp(−t²/2): its length moves by at most 1 for 1, and √P is above its mean. So an answer that is longer was not
made as the plan says, and whoever adds it up need not. No record enters here: the bound is that of all data sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from fedveil.core.types import Declaration
from fedveil.engine.client import Broadcast
from fedveil.method import Method
from fedveil.parts.optimisers import Momentum, Sgd
from fedveil.parts.personal import Identity, Shared

LENGTH_TAIL = 8.0
"""t: an honest answer is refused with a probability of at most exp(−32) = 1.3e-14."""

ARITHMETIC = 1e-3
"""Room for sums in single precision and for the grid of the noise, relative to the bound."""

LAST_DIGIT = 2.0**-22
"""And for rounding a parameter in every step, relative to the parameter."""


def longest_noisy(clean: float, std: float, size: int, draws: int = 1) -> float:
    """Of a vector of `size` numbers that is at most `clean` long, with so many draws of noise on it."""
    return (clean + std * math.sqrt(draws) * (math.sqrt(size) + LENGTH_TAIL)) * (1 + ARITHMETIC)


def longest_update(method: Method, declared: Sequence[Declaration], broadcast: Broadcast, size: int) -> float:
    """Of the update of a site that declares this; ∞ where public constants do not bound it.

    They do not without a clip, behind optimisers that divide by gradients, or where a site begins with a model of its
    own. What a site compresses gets no longer.
    """
    if not declared:
        return math.inf
    did = declared[-1]
    if method.upload is not None:
        return longest_noisy(did.sensitivity, did.sum_std, size)
    if method.example is None or not isinstance(method.personal, Shared | Identity):
        return math.inf
    reach = _reach(method, broadcast.round, did)
    if reach is None:
        return math.inf
    rows = min(did.steps * did.sampling.cap, did.sampling.uses * did.sampling.records)  # of all steps
    moved = reach * longest_noisy(rows * did.sensitivity, did.sum_std, size, did.steps)
    start = float(torch.linalg.vector_norm(broadcast.parameters, dtype=torch.float64))
    pulled = did.steps * _decayed(method, broadcast.round) * start
    return moved + pulled + did.steps * LAST_DIGIT * (start + moved + pulled)


def _reach(method: Method, round: int, did: Declaration) -> float | None:
    """By how much a noisy sum of gradients can move the parameters until the last step, in units of its length."""
    local, pace = method.local, method.local.rate.at(round, method.rounds) / did.sampling.batch
    if isinstance(local.optimiser, Sgd):
        return pace if _decayed(method, round) <= 1 else None  # above 1, decay itself moves away from 0
    if isinstance(local.optimiser, Momentum) and not local.decay:
        beta = local.optimiser.beta
        return pace * math.fsum(beta**step for step in range(did.steps))
    return None


def _decayed(method: Method, round: int) -> float:
    """The share of the parameters that decay takes off in a step."""
    return method.local.rate.at(round, method.rounds) * method.local.decay
