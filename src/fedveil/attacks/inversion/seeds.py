"""What the reconstruction starts from. The seed decides much of an attack's success and cost (Wei et al., 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from fedveil.core.checks import count


@dataclass(frozen=True)
class Patterned:
    """A random piece, uniform in [0, 1], tiled `tiles` × `tiles`; records that are no pictures get a tiled row."""

    kind: ClassVar[str] = "patterned"
    tiles: int = 2

    def __post_init__(self) -> None:
        count("tiles", self.tiles)

    def draw(self, records: int, shape: Sequence[int], generator: Generator) -> Tensor:
        tiled = range(max(len(shape) - 2, 0), len(shape))  # the last two axes of a picture, the only one of a row
        piece = [-(-size // self.tiles) if axis in tiled else size for axis, size in enumerate(shape)]
        repeats = [self.tiles if axis in tiled else 1 for axis in range(len(shape))]
        grid = torch.rand(records, *piece, generator=generator).repeat(1, *repeats)
        return grid[(slice(None), *(slice(size) for size in shape))].contiguous()


@dataclass(frozen=True)
class Uniform:
    """Independent values, uniform in [0, 1]."""

    kind: ClassVar[str] = "uniform"

    def draw(self, records: int, shape: Sequence[int], generator: Generator) -> Tensor:
        return torch.rand(records, *shape, generator=generator)


@dataclass(frozen=True)
class Normal:
    """Independent standard normal values (DLG)."""

    kind: ClassVar[str] = "normal"

    def draw(self, records: int, shape: Sequence[int], generator: Generator) -> Tensor:
        return torch.randn(records, *shape, generator=generator)


@dataclass(frozen=True)
class Zeros:
    """Nothing at all."""

    kind: ClassVar[str] = "zeros"

    def draw(self, records: int, shape: Sequence[int], generator: Generator) -> Tensor:
        return torch.zeros(records, *shape)


Seed = Patterned | Uniform | Normal | Zeros
