"""A model's parameters as one flat vector, and where each layer lives in it.

Everything behind the models (clipping, noise, optimisers, aggregation, checkpoints) works on `[..., P]`
vectors, so one expression serves one client and a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING

from fedveil.core.deferred import torch

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Layout:
    """Names, shapes and groups of the parameters in a flat vector of length `size`.

    A group is a layer: all parameters owned by one module (a weight and its bias), as per-layer clipping
    counts them. `groups[i]` is the group of parameter `i`; groups are numbered in order of appearance.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    groups: tuple[int, ...]

    @staticmethod
    def of(model: nn.Module) -> Layout:
        """The layout of a model's trainable parameters, in the order of `named_parameters`."""
        named = [(name, tensor) for name, tensor in model.named_parameters() if tensor.requires_grad]
        owners = list(dict.fromkeys(name.rpartition(".")[0] for name, _ in named))
        return Layout(
            names=tuple(name for name, _ in named),
            shapes=tuple(tuple(tensor.shape) for _, tensor in named),
            groups=tuple(owners.index(name.rpartition(".")[0]) for name, _ in named),
        )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(prod(shape) for shape in self.shapes)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each parameter begins; one more entry than there are parameters."""
        return (0, *accumulate(self.sizes))

    @cached_property
    def size(self) -> int:
        """P, the number of coordinates."""
        return sum(self.sizes)

    @cached_property
    def group_count(self) -> int:
        """M, the number of layers."""
        return max(self.groups, default=-1) + 1

    @cached_property
    def group_slices(self) -> tuple[slice, ...]:
        """The contiguous range of each group."""
        slices: list[slice] = []
        for group in range(self.group_count):
            members = [i for i, g in enumerate(self.groups) if g == group]
            slices.append(slice(self.offsets[members[0]], self.offsets[members[-1] + 1]))
        return tuple(slices)

    def split(self, flat: Tensor) -> dict[str, Tensor]:
        """Named views `[..., *shape]` into a flat `[..., P]` tensor."""
        pieces = torch.split(flat, list(self.sizes), dim=-1)
        return {
            name: piece.reshape((*flat.shape[:-1], *shape))
            for name, shape, piece in zip(self.names, self.shapes, pieces, strict=True)
        }

    def join(self, named: Mapping[str, Tensor], batch_dims: int = 0) -> Tensor:
        """The inverse of `split` for tensors with `batch_dims` leading axes."""
        return torch.cat([named[name].reshape(*named[name].shape[:batch_dims], -1) for name in self.names], dim=-1)

    def vector(self, model: nn.Module) -> Tensor:
        """A detached flat copy of the model's trainable parameters."""
        return self.join({name: p.detach() for name, p in model.named_parameters() if p.requires_grad}).clone()

    def load(self, model: nn.Module, flat: Tensor) -> None:
        """Write a flat vector into the model's parameters."""
        parameters = dict(model.named_parameters())
        with torch.no_grad():
            for name, value in self.split(flat).items():
                parameters[name].copy_(value)

    def __iter__(self) -> Iterator[tuple[str, tuple[int, ...], int]]:
        return iter(zip(self.names, self.shapes, self.groups, strict=True))
