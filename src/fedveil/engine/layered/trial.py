"""Building the layered path: what a network does with its leaves is tried before it is relied on."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from fedveil.core.objectives import CROSS_ENTROPY, Objective
from fedveil.engine.autograd_check import disagreement
from fedveil.engine.layered.layered_gradients import Layered
from fedveil.engine.layered.step import STEPS_OUT, Unsupported


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
            with made.without_drawing():
                problem = disagreement(made, _still(model), input_shape, objective, tokens)
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


def _still(model: nn.Module) -> nn.Module:
    """A copy that draws nothing."""
    still = copy.deepcopy(model)
    for module in still.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0  # type: ignore[assignment]
    return still
