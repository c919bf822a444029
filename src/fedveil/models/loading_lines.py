"""Three lines of Python that make a network again and fill it from its file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from fedveil.models.unit_rows import NEAR, PEAK, UnitRows

_WRITTEN_AS_THEY_ARE = (
    nn.Linear, nn.Conv2d, nn.ReLU, nn.Sigmoid, nn.Tanh, nn.ELU, nn.Flatten, nn.MaxPool2d, nn.AvgPool2d, nn.Dropout,
    nn.GroupNorm, nn.LayerNorm,
)  # fmt: skip
"""Layers of PyTorch whose `repr` is the call that makes them."""


def plain_network(model: nn.Module) -> str | None:
    """The expression that makes a chain of layers in plain PyTorch; None for networks that need more than that."""
    if type(model) is not nn.Sequential or any(type(layer) not in _WRITTEN_AS_THEY_ARE for layer in model):
        return None
    if list(model._modules) != [str(place) for place in range(len(model))]:
        return None
    return f"torch.nn.Sequential({', '.join(f'torch.nn.{layer!r}' for layer in model)})"


def _linear_lines(model: nn.Module, file: str) -> tuple[str, str, str] | None:
    """For the linear model on rows of length 1 (`unit_rows.linear`), whose one parameter is a matrix."""
    if type(model) is not nn.Sequential or list(model._modules) != ["features", "head"]:
        return None
    rows, head = model
    if type(rows) is not UnitRows or type(head) is not nn.Linear or list(model.state_dict()) != ["head.weight"]:
        return None
    row = f"rows.flatten(1).clamp({-rows.limit!r}, {rows.limit!r})"
    if rows.low_ends:
        row = f"torch.cat([{row}, {_hat(f'{row} / {rows.limit!r}')}], 1)"
    row = f"torch.nn.functional.normalize(torch.nn.functional.pad({row}, (0, 1), value={rows.constant!r}), dim=1)"
    weight = f'safetensors.torch.load_file("{file}")["head.weight"]'
    if not rows.products:
        return "import torch, safetensors.torch", f"weight = {weight}", f"model = lambda rows: {row} @ weight.T"
    count = math.isqrt(2 * rows.outputs) - 1  # count + count·(count + 1)/2 features
    pairs = "unit[:, i] * unit[:, j] * (2 - (i == j).float()).sqrt()"
    return (
        f"import torch, safetensors.torch; i, j = torch.triu_indices({count}, {count})",
        f"weight = {weight}; both = lambda unit: torch.cat([unit, {pairs}], 1) / 2**0.5",
        f"model = lambda rows: both({row}) @ weight.T",
    )


def _hat(row: str) -> str:
    """`unit_rows.hat` as an expression."""
    above = f"(1 + {row})"
    rising = f"({above}.clamp(min=0) / {NEAR!r}).log1p() / {math.log1p(PEAK / NEAR)!r}"
    falling = f"{above}.clamp(min={NEAR!r}).log() / {math.log(PEAK)!r}"
    return f"torch.minimum({rising}, {falling}).clamp(min=0)"


def loading_lines(
    model: nn.Module,
    name: str,
    input_shape: Sequence[int],
    outputs: int,
    options: Mapping[str, Any],
    seed: int,
    *,
    tokens: bool = False,
) -> tuple[str, str, str]:
    """In plain PyTorch where that suffices, otherwise with the function that made the network."""
    file = "model.safetensors"
    plain = plain_network(model)
    if plain is not None:
        load = f'model.load_state_dict(safetensors.torch.load_file("{file}"))'
        return "import torch, safetensors.torch", f"model = {plain}", load
    lines = _linear_lines(model, file)
    if lines is not None:
        return lines
    of_tokens = ", tokens=True" if tokens else ""
    return (
        "from fedveil.models.registry import build; from safetensors.torch import load_file",
        f"model = build({name!r}, {list(input_shape)}, {outputs}, {dict(options)!r}, seed={seed}{of_tokens})",
        f'model.load_state_dict(load_file("{file}"))',
    )
