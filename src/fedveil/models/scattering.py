"""A linear model on fixed features of pictures, in a basis made from drawn pictures."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.core.atomic import write_whole
from fedveil.core.checks import FieldError, count, one_of
from fedveil.core.digested_tensors import TensorsDamaged, digested, read_digested
from fedveil.core.errors import FedveilError
from fedveil.models.features import FixedFeatures, Projected, Scattering, TwoBases, WithConstant
from fedveil.models.scenes import leaves, silhouettes, told_apart, whitened
from fedveil.models.strokes import characters, contrast
from fedveil.models.unit_rows import CONSTANT

CHARACTER_KINDS, SAMPLES, SEED, SHRINKAGE, OUTPUTS = 1500, 14, 0, 0.1, 128
"""The drawn characters behind the basis, and how many directions of it are kept."""

SILHOUETTES, CHARACTERS, GREY_LEAVES, GREY_OUTPUTS = 4000, 4000, 1000, 256
COLOUR_LEAVES, COLOUR_OUTPUTS = 8000, 256
"""The drawn pictures behind the bases for any pictures, and how many directions are kept."""
SLOPE, GATE_RIDGE = 4.0, 0.002
"""How surely a picture is taken for strokes or for none, and how smooth the rule is that tells them apart."""

BASIS, SCENES = (Path(__file__).with_name(name) for name in ("strokes.safetensors", "scenes.safetensors"))
BASES = ("auto", "strokes", "plain", "scenes")


def scattering(input_shape: Sequence[int], classes: int, *, basis: str = "auto", outputs: int = OUTPUTS) -> nn.Module:
    """Scattering features, a fixed basis, then one dense layer that begins at zero: all that is trained.

    `basis = "scenes"` is for any pictures: directions in which drawn scenes vary, scaled to vary equally. A grey
    picture that looks like drawn characters has strokes in their place, any other something of both. `"strokes"` keeps
    the `outputs` directions that tell drawn characters apart (grey pictures); `"plain"` keeps the features as they are;
    `"auto"` takes strokes for grey pictures. None of them was made from anybody's records.
    """
    if len(input_shape) != 3:
        raise FedveilError(f"model: 'scattering' needs pictures, but the records have shape {list(input_shape)}")
    one_of("basis", basis, BASES)
    if basis == "auto":
        basis = "strokes" if input_shape[0] == 1 else "plain"
    features = _features(Scattering(input_shape), input_shape[0], basis, outputs)
    if basis == "scenes":
        features = WithConstant(features, CONSTANT)
    head = nn.Linear(features.outputs, classes, bias=basis != "scenes")
    for parameter in head.parameters():
        nn.init.zeros_(parameter)
    return nn.Sequential(OrderedDict(features=features, head=head))


def _features(first: FixedFeatures, channels: int, basis: str, outputs: int) -> FixedFeatures:
    if basis == "plain":
        return Projected(first, torch.zeros(first.outputs), None)
    if basis == "strokes":
        count("outputs", outputs)
        if channels != 1:
            raise FieldError("basis", "the characters are grey; use 'plain' or 'scenes' for pictures with colours")
        mean, directions = _stored()
        if outputs > directions.shape[1]:
            raise FieldError("outputs", f"must be at most {directions.shape[1]}, not {outputs}")
        return Projected(first, mean.clone(), directions[:, :outputs].clone())
    scenes = _stored_scenes()
    if channels == 1:
        means = torch.stack([_stored()[0], scenes["grey.mean"]])
        strokes = _without(_stored()[1], scenes["grey.offset"])
        gate, threshold = (SLOPE * scenes[name] for name in ("grey.gate", "grey.threshold"))
        return TwoBases(first, means, strokes, scenes["grey.directions"].clone(), gate, threshold)
    if channels != 3:
        raise FieldError("basis", f"scenes are grey or have 3 colours, not {channels}; use 'plain'")
    return Projected(first, scenes["colour.mean"].clone(), scenes["colour.directions"].clone())


def _without(directions: Tensor, offset: Tensor) -> Tensor:
    """Strokes that do not see in which direction silhouettes lie: there all of their pictures would look alike."""
    return directions - (directions @ offset)[:, None] * offset


@torch.no_grad()
def make_basis() -> tuple[Tensor, Tensor]:
    """The mean `[F]` and the directions `[F, OUTPUTS]`, from code and a seed alone."""
    pictures = characters(CHARACTER_KINDS, SAMPLES, SEED)
    return contrast(_scattered(pictures), CHARACTER_KINDS, OUTPUTS, SHRINKAGE)


def make_scenes() -> dict[str, Tensor]:
    """Means and directions for any pictures, grey and in colours, from code and seeds alone."""
    shapes = _scattered(silhouettes(SILHOUETTES, 28, SEED))
    strokes = _scattered(characters(CHARACTERS // 4, 4, SEED + 1))
    scenes = _scattered(leaves(GREY_LEAVES, 1, 28, SEED))
    mean, directions = whitened(torch.cat([shapes, strokes, scenes]), GREY_OUTPUTS, SHRINKAGE)
    likeness, threshold = told_apart(
        (strokes - mean) @ directions, (torch.cat([shapes, scenes]) - mean) @ directions, GATE_RIDGE
    )
    stroke_mean, stroke_directions = _stored()
    offset = functional.normalize(((shapes - stroke_mean) @ stroke_directions).mean(dim=0), dim=0)
    colour_mean, colour_directions = whitened(_scattered(leaves(COLOUR_LEAVES, 3, 32, SEED)), COLOUR_OUTPUTS, SHRINKAGE)
    return {
        "grey.mean": mean,
        "grey.directions": directions,
        "grey.offset": offset,
        "grey.gate": directions @ likeness,
        "grey.threshold": threshold,
        "colour.mean": colour_mean,
        "colour.directions": colour_directions,
    }


@torch.no_grad()
def _scattered(pictures: Tensor) -> Tensor:
    features = Scattering(tuple(pictures.shape[1:]))
    return torch.cat([features(part) for part in torch.split(pictures, 500)])


@cache
def _stored() -> tuple[Tensor, Tensor]:
    """What `make_basis` made once, so that every machine has the same numbers and nobody waits for them."""
    basis = _read(BASIS)
    return basis["mean"], basis["directions"]


@cache
def _stored_scenes() -> dict[str, Tensor]:
    """What `make_scenes` made once."""
    return _read(SCENES)


def _read(path: Path) -> dict[str, Tensor]:
    try:
        stored, _ = read_digested(path)
    except TensorsDamaged as error:
        raise FedveilError(f"{path}: the fixed features are damaged ({error}); install fedveil again") from None
    return {name: tensor.float() for name, tensor in stored.items()}


def store_basis() -> None:
    """`python -m fedveil.models.scattering` after a change of the features or of what is drawn."""
    mean, directions = make_basis()
    write_whole(BASIS, digested({"mean": mean.half(), "directions": directions.half()}))
    _stored.cache_clear()
    store_scenes()


def store_scenes() -> None:
    """The part of `store_basis` that is made from scenes."""
    write_whole(SCENES, digested({name: tensor.half() for name, tensor in make_scenes().items()}))


if __name__ == "__main__":
    store_basis()
