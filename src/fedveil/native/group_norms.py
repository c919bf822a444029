"""Normalisation of many small images by groups of their channels, in C where this machine has the kernels.

In PyTorch every step of it goes over all images again, and they are far from the core by then; here one image after
the other is finished.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from fedveil.native.calls import VECTOR_WIDTHS, Call, call

_NORMALISE, _BACK = 13, 14


def takes(images: Tensor) -> bool:
    """Whether images `[N, points, channels]` are for these kernels."""
    here = images.device.type == "cpu" and images.dtype == torch.float32
    return bool(VECTOR_WIDTHS) and here and images.numel() > 0


def normalise(images: Tensor, scale: Tensor, shift: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor]:
    """Images `[N, points, C]` whose groups have mean 0 and variance 1, times scale plus shift `[K, C]`; what was found.

    N is a multiple of K. What was found of each image are means and inverse standard deviations `[N, 2, C]`.
    """
    images, scale, shift = (each.contiguous() for each in (images, scale, shift))
    _check(images, scale, shift, groups=groups)
    out, found = torch.empty_like(images), images.new_empty(len(images), 2, images.shape[-1])
    _run(_NORMALISE, groups, images, scale, shift, out, found, _number(eps))
    return out, found


def normalise_back(
    images: Tensor, delta: Tensor, scale: Tensor, found: Tensor, groups: int, *, through: bool
) -> tuple[Tensor, Tensor | None]:
    """Derivatives of each image by scale and by shift `[N, 2, C]`, and by the images, if it goes on `through` them."""
    images, delta, scale = (each.contiguous() for each in (images, delta, scale))
    _check(images, scale, groups=groups)
    if delta.shape != images.shape or delta.dtype != images.dtype or not found.is_contiguous():
        raise ValueError(f"derivatives {tuple(delta.shape)} do not fit images {tuple(images.shape)}")
    back, rows = torch.empty_like(images) if through else None, torch.empty_like(found)
    _run(_BACK, groups, images, delta, scale, found, back, rows)
    return rows, back


def _check(images: Tensor, *weights: Tensor, groups: int) -> None:
    pictures, _, channels = images.shape
    for each in weights:
        if each.shape != (len(weights[0]), channels) or each.dtype != images.dtype or pictures % len(each):
            raise ValueError(f"weights {tuple(each.shape)} do not fit images {tuple(images.shape)}")
    if groups < 1 or channels % groups:
        raise ValueError(f"{channels} channels are not {groups} groups")


def _run(kernel: int, groups: int, images: Tensor, *rest: Tensor | None) -> None:
    clients = len(rest[0] if kernel == _NORMALISE else rest[1])  # type: ignore[arg-type]
    pictures, points, channels = images.shape
    sizes = _sizes(clients, pictures // clients, channels, groups, points)
    room = np.empty(2 * channels + 64, np.float32)
    call(Call(kernel, VECTOR_WIDTHS[0], clients, sizes, room, (images, *rest)))


@lru_cache(maxsize=256)
def _sizes(clients: int, slots: int, channels: int, groups: int, points: int) -> bytes:
    """`Shape` of the C file."""
    numbers = np.zeros(32, np.int32)
    numbers[[0, 1, 5, 6, 8]] = clients, slots, channels, groups, points
    return numbers.tobytes()


@lru_cache(maxsize=64)
def _number(value: float) -> Tensor:
    return torch.tensor([value])
