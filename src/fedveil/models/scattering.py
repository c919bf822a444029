"""A linear model on fixed features of pictures, in a basis made from drawn characters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from fedveil.core.atomic import write_whole
from fedveil.core.checks import FieldError, count, one_of
from fedveil.core.digested_tensors import TensorsDamaged, digested, read_digested
from fedveil.core.errors import FedveilError
from fedveil.models.features import FixedFeatures, Projected, Scattering
from fedveil.models.strokes import characters, contrast

CHARACTER_KINDS, SAMPLES, SEED, SHRINKAGE, OUTPUTS = 1500, 14, 0, 0.1, 128
"""The drawn characters behind the basis, and how many directions of it are kept."""

BASIS = Path(__file__).with_name("strokes.safetensors")


def scattering(input_shape: Sequence[int], classes: int, *, basis: str = "auto", outputs: int = OUTPUTS) -> nn.Module:
    """Scattering features, a fixed basis, then one dense layer that begins at zero: all that is trained.

    `basis = "strokes"` keeps the `outputs` directions that tell drawn characters apart (grey pictures); `"plain"` keeps
    the features as they are; `"auto"` takes strokes for grey pictures. Neither was made from anybody's records.
    """
    if len(input_shape) != 3:
        raise FedveilError(f"model: 'scattering' needs pictures, but the records have shape {list(input_shape)}")
    one_of("basis", basis, ("auto", "strokes", "plain"))
    if basis == "auto":
        basis = "strokes" if input_shape[0] == 1 else "plain"
    features: FixedFeatures = Scattering(input_shape)
    if basis == "strokes":
        count("outputs", outputs)
        if input_shape[0] != 1:
            raise FieldError("basis", "the characters are grey; use 'plain' for pictures with colours")
        mean, directions = _stored()
        if outputs > directions.shape[1]:
            raise FieldError("outputs", f"must be at most {directions.shape[1]}, not {outputs}")
        features = Projected(features, mean.clone(), directions[:, :outputs].clone())
    else:
        features = Projected(features, torch.zeros(features.outputs), None)
    head = nn.Linear(features.outputs, classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return nn.Sequential(OrderedDict(features=features, head=head))


@torch.no_grad()
def make_basis() -> tuple[Tensor, Tensor]:
    """The mean `[F]` and the directions `[F, OUTPUTS]`, from code and a seed alone."""
    pictures = characters(CHARACTER_KINDS, SAMPLES, SEED)
    features = Scattering((1, 28, 28))
    return contrast(
        torch.cat([features(part) for part in torch.split(pictures, 500)]), CHARACTER_KINDS, OUTPUTS, SHRINKAGE
    )


@cache
def _stored() -> tuple[Tensor, Tensor]:
    """What `make_basis` made once, so that every machine has the same numbers and nobody waits for them."""
    try:
        basis, _ = read_digested(BASIS)
    except TensorsDamaged as error:
        raise FedveilError(f"{BASIS}: the fixed features are damaged ({error}); install fedveil again") from None
    return basis["mean"].float(), basis["directions"].float()


def store_basis() -> None:
    """`python -m fedveil.models.scattering` after a change of the features or the characters."""
    mean, directions = make_basis()
    write_whole(BASIS, digested({"mean": mean.half(), "directions": directions.half()}))


if __name__ == "__main__":
    store_basis()
