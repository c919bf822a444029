"""What a fast path computes is tried before it is relied on, and before anything is promised or paid for.

Records that are nobody's go through the network, at weights that are nobody's, and what comes out is compared with
ordinary autograd's, one example at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedveil.core.objectives import Objective
from fedveil.core.parameters import Layout
from fedveil.core.torch_warnings import without_torch_warnings
from fedveil.engine.general import sum_rows
from fedveil.engine.gradients import Batch, Gradients, WatchedLimit
from fedveil.engine.plain import Plain
from fedveil.mechanisms.clip import Limit

AGREE = 1e-3
"""Of a layer's gradient: far more than rounding does, far less than a mistake."""

MOVED_BY = 1e-5
"""How far weights are moved, of themselves, to see how much of a difference is due to rounding.

Where two ways of rounding meet a ReLU or a max pool at its bend, one of them may fall on the other side. In one of ten
residual networks that makes them differ by more than `AGREE`. But then autograd differs from itself as much, too.
"""

AGREE_AT_BENDS = 0.1
"""The most that is put down to bends: ten times what was seen of residual networks, and less than a mistake."""

CLIENTS, SLOTS = 2, 3

TRIED_ONCE_FROM = 4_000_000
"""Of networks with more parameters one example is tried: every one takes memory for all of them, several times."""


@dataclass(frozen=True)
class Outcome:
    """What gradients are at some weights."""

    rows: Tensor  # [K, B, P]
    norms: Tensor  # [2, K, B, M]: with the rows, and with the sums
    clipped: Tensor  # [K, P]: sums
    plain: Tensor  # [K, P]


def disagreement(
    made: Gradients, model: nn.Module, input_shape: Sequence[int], objective: Objective, tokens: bool = False
) -> str | None:
    """What is different from ordinary autograd on `model`; None where nothing is. Neither of the two may draw."""
    moved, batch = nobodys(made.layout.vector(model), input_shape, objective, tokens)
    autograd = Plain(model, objective)
    with without_torch_warnings():
        norms = autograd.rows(moved, batch).norms
        limit = Limit(max(float(norms.mean()), 1e-12), "layer")  # some are clipped, some are not
        found, expected = _outcome(made, moved, batch, limit), _outcome(autograd, moved, batch, limit)
        problem = _difference(found, expected, made.layout)
        if problem is not None:
            directions = torch.randn(moved.shape, generator=torch.Generator().manual_seed(1), dtype=moved.dtype)
            around = [_outcome(autograd, moved * (1 + side * MOVED_BY * directions), batch, limit) for side in (1, -1)]
            problem = _difference(found, expected, made.layout, around)
    return problem


def _outcome(gradients: Gradients, parameters: Tensor, batch: Batch, limit: Limit) -> Outcome:
    rows = gradients.rows(parameters, batch)
    if isinstance(gradients, Plain):  # whose sums would go through all examples again
        clipped, plain = sum_rows(rows, limit, gradients.layout).total, rows.rows.sum(dim=1)
        return Outcome(rows.rows, torch.stack([rows.norms, rows.norms]), clipped, plain)
    sums = gradients.sums(parameters, batch, WatchedLimit(limit, lambda norms, factors: None))
    clipped, norms = sums.total.clone(), sums.norms
    assert norms is not None
    both = torch.stack([rows.norms, norms])
    return Outcome(rows.rows, both, clipped, gradients.sums(parameters, batch, None).total)


def _difference(found: Outcome, expected: Outcome, layout: Layout, around: Sequence[Outcome] = ()) -> str | None:
    """What differs by more than rounding does, and by more than what autograd says of weights `around`."""
    names = {"rows": "rows", "clipped": "clipped sums", "plain": "sums"}
    for field, what in names.items():
        one, two, *near = (getattr(each, field) for each in (found, expected, *around))
        for part in layout.group_slices:
            if not _alike(one[..., part], two[..., part], [each[..., part] for each in near]):
                name = layout.names[layout.offsets.index(part.start)]
                return f"{what} of '{name.rpartition('.')[0]}' differ from ordinary autograd's"
    if not _alike(found.norms, expected.norms, [each.norms for each in around]):
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


def _alike(one: Tensor, two: Tensor, around: Sequence[Tensor]) -> bool:
    slack = max((float((each - two).norm()) for each in around), default=0.0)
    return bool((one - two).norm() <= min(AGREE * two.norm() + 2 * slack, AGREE_AT_BENDS * two.norm()) + 1e-9)
