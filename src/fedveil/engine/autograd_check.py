"""What a fast path computes is tried before it is relied on, and before anything is promised or paid for.

Records that are nobody's go through the network, at weights that are nobody's, and what comes out is compared with
ordinary autograd's, one example at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

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

CLIENTS, SLOTS = 2, 3

TRIED_ONCE_FROM = 4_000_000
"""Of networks with more parameters one example is tried: every one takes memory for all of them, several times."""


def disagreement(
    made: Gradients, model: nn.Module, input_shape: Sequence[int], objective: Objective, tokens: bool = False
) -> str | None:
    """What is different from ordinary autograd on `model`; None where nothing is. Neither of the two may draw."""
    moved, batch = nobodys(made.layout.vector(model), input_shape, objective, tokens)
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


def nobodys(start: Tensor, input_shape: Sequence[int], objective: Objective, tokens: bool) -> tuple[Tensor, Batch]:
    """Weights near `start`, and records, that are nobody's."""
    generator = torch.Generator().manual_seed(0)
    moved = start + 0.05 * torch.randn(CLIENTS, len(start), generator=generator, dtype=start.dtype)
    slots = SLOTS if len(start) <= TRIED_ONCE_FROM else 1
    shape = (CLIENTS, slots, *input_shape)
    inputs = torch.randint(0, 2, shape, generator=generator) if tokens else torch.rand(shape, generator=generator)
    labels = torch.zeros(CLIENTS, slots, dtype=torch.float32 if objective.of_numbers else torch.int64)
    return moved, Batch(inputs, labels, torch.ones(CLIENTS, slots))


def _alike(one: Tensor, two: Tensor) -> bool:
    return bool((one - two).norm() <= AGREE * two.norm() + 1e-9)
