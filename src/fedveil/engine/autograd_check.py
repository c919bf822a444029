"""What a fast path computes is tried before it is relied on, and before anything is promised or paid for.

Records that are nobody's go through the network, at weights that are nobody's, and what comes out is compared with
ordinary autograd's, one example at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, islice

import torch
from torch import Tensor, nn

from fedveil.core.objectives import Objective
from fedveil.core.torch_warnings import without_torch_warnings
from fedveil.engine.general import sum_rows
from fedveil.engine.gradients import Batch, Gradients, WatchedLimit
from fedveil.engine.plain import Plain
from fedveil.mechanisms.clip import Limit

AGREE = 1e-3
"""Of a layer's gradient: far more than rounding does, far less than a mistake."""

MORE_TRIES = 3
"""Where what comes out differs it is tried again so often, and must agree in most of these tries.

A ReLU or a max pool may fall on the other side of its bend where two ways of rounding meet it: in one of ten residual
networks, by chance. A mistake shows wherever one looks.
"""

CLIENTS, SLOTS = 2, 3

TRIED_ONCE_FROM = 4_000_000
"""Of networks with more parameters one example is tried: every one takes memory for all of them, several times."""


def disagreement(
    made: Gradients, model: nn.Module, input_shape: Sequence[int], objective: Objective, tokens: bool = False
) -> str | None:
    """What is different from ordinary autograd on `model`; None where nothing is. Neither of the two may draw."""
    start = made.layout.vector(model)
    tries = (_difference(made, model, objective, *nobodys(start, input_shape, objective, tokens, k)) for k in count())
    problem = next(tries)
    if problem is None or list(islice(tries, MORE_TRIES)).count(None) > MORE_TRIES / 2:
        return None
    return problem


def _difference(made: Gradients, model: nn.Module, objective: Objective, moved: Tensor, batch: Batch) -> str | None:
    """The same at these weights and records."""
    with without_torch_warnings():
        expected = Plain(model, objective).rows(moved, batch)
        limit = Limit(max(float(expected.norms.mean()), 1e-12), "layer")  # some are clipped, some are not
        rows = made.rows(moved, batch)
        sums = made.sums(moved, batch, WatchedLimit(limit, lambda norms, factors: None))
        clipped, plain = sums.total.clone(), made.sums(moved, batch, None).total.clone()
    pairs = (
        ("rows", rows.rows, expected.rows),
        ("clipped sums", clipped, sum_rows(expected, limit, made.layout).total),
        ("sums", plain, expected.rows.sum(dim=1)),
    )
    for what, one, two in pairs:
        for part in made.layout.group_slices:
            if not _alike(one[..., part], two[..., part]):
                name = made.layout.names[made.layout.offsets.index(part.start)]
                return f"{what} of '{name.rpartition('.')[0]}' differ from ordinary autograd's"
    if not _alike(rows.norms, expected.norms) or sums.norms is None or not _alike(sums.norms, expected.norms):
        return "norms differ from ordinary autograd's"
    return None


def nobodys(
    start: Tensor, input_shape: Sequence[int], objective: Objective, tokens: bool, number: int = 0
) -> tuple[Tensor, Batch]:
    """Weights near `start`, and records, that are nobody's; others for every number."""
    generator = torch.Generator().manual_seed(number)
    moved = start + 0.05 * torch.randn(CLIENTS, len(start), generator=generator, dtype=start.dtype)
    slots = SLOTS if len(start) <= TRIED_ONCE_FROM else 1
    shape = (CLIENTS, slots, *input_shape)
    inputs = torch.randint(0, 2, shape, generator=generator) if tokens else torch.rand(shape, generator=generator)
    labels = torch.zeros(CLIENTS, slots, dtype=torch.float32 if objective.of_numbers else torch.int64)
    return moved, Batch(inputs, labels, torch.ones(CLIENTS, slots))


def _alike(one: Tensor, two: Tensor) -> bool:
    return bool((one - two).norm() <= AGREE * two.norm() + 1e-9)
