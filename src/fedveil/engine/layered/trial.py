"""Building the layered path: what a network does with its leaves is tried before it is relied on.

Records that are nobody's go through it, at weights that are nobody's, and every example's gradient is compared with
ordinary autograd's on that example alone.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedveil.core.objectives import CROSS_ENTROPY, Objective
from fedveil.core.torch_warnings import without_torch_warnings
from fedveil.engine.gradients import Batch
from fedveil.engine.layered.layered_gradients import Layered
from fedveil.engine.layered.step import STEPS_OUT, Unsupported
from fedveil.engine.plain import Plain

AGREE = 1e-3
"""Of a layer's gradient: far more than rounding does, far less than a mistake."""

CLIENTS, SLOTS = 2, 3


@dataclass(frozen=True)
class NotLayered:
    """Why a network goes another way."""

    reason: str


def layered(
    model: nn.Module, input_shape: Sequence[int], objective: Objective = CROSS_ENTROPY, *, tokens: bool = False
) -> Layered | NotLayered:
    """The layered path for this network, or why it can't have it.

    A module that is used in a way its leaf does not know has its gradients taken example by example.
    """
    if not STEPS_OUT:
        return NotLayered("this version of PyTorch gives no way to it")
    refused: dict[str, str] = {}
    contiguous = False
    for _ in range(2 + sum(1 for _ in model.modules())):
        try:
            made = Layered(model, objective, refused, contiguous)
            if not made.has_leaves:
                return NotLayered("no part of it is known")
            problem = _disagreement(made, model, input_shape, objective, tokens)
            return made if problem is None else NotLayered(problem)
        except Unsupported as error:
            if error.path is None or error.path in refused:
                return NotLayered(str(error))
            refused[error.path] = str(error)
        except Exception as error:  # a user's network can fail in any way
            text = " ".join(str(error).split())
            if contiguous or "view size is not compatible" not in text:
                return NotLayered(f"{type(error).__name__}: {text}")
            contiguous = True  # it asks how its activations lie in memory
    return NotLayered("its parts could not be told apart")


def _disagreement(
    made: Layered, model: nn.Module, input_shape: Sequence[int], objective: Objective, tokens: bool
) -> str | None:
    """What is different from ordinary autograd, one example at a time; None where nothing is."""
    moved, batch = nobodys(made.layout.vector(model), input_shape, objective, tokens)
    with made.without_drawing(), without_torch_warnings():
        rows = made.rows(moved, batch)
        sums = made.sums(moved, batch, torch.ones_like)
        clipped, plain = sums.total.clone(), made.sums(moved, batch, None).total.clone()
        expected = Plain(_still(model), objective).rows(moved, batch)
    total = expected.rows.sum(dim=1)
    for what, one, two in (("rows", rows.rows, expected.rows), ("sums", clipped, total), ("sums", plain, total)):
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
    shape = (CLIENTS, SLOTS, *input_shape)
    inputs = torch.randint(0, 2, shape, generator=generator) if tokens else torch.rand(shape, generator=generator)
    labels = torch.zeros(CLIENTS, SLOTS, dtype=torch.float32 if objective.of_numbers else torch.int64)
    return moved, Batch(inputs, labels, torch.ones(CLIENTS, SLOTS))


def _alike(one: Tensor, two: Tensor) -> bool:
    return bool((one - two).norm() <= AGREE * two.norm() + 1e-9)


def _still(model: nn.Module) -> nn.Module:
    """A copy that draws nothing."""
    still = copy.deepcopy(model)
    for module in still.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0  # type: ignore[assignment]
    return still
