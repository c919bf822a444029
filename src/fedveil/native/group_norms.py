"""Normalisation of many small images by groups of their channels, in C where this machine has the kernels.

In PyTorch every step of it goes over all images again, and they are far from the core by then; in C one image after the
other is finished. Images are channels last: PyTorch's own kernel for that order takes up to eight times as long as for
the usual one.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from fedveil.native.calls import VECTOR_WIDTHS, Call, call
from fedveil.native.small_layers import sizes_of


def normalise(images: Tensor, scale: Tensor, shift: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor]:
    """Images `[N, points, C]` whose groups of channels have mean 0 and variance 1, times scale plus shift `[K, C]`.

    N is a multiple of K. Also what was found of each image: means and inverse standard deviations `[N, 2, C]`.
    """
    images, scale, shift = (each.contiguous() for each in (images, scale, shift))
    _check(images, groups, scale, shift)
    if _takes(images, scale, shift):
        out, found = torch.empty_like(images), images.new_empty(len(images), 2, images.shape[-1])
        _run(_NORMALISE, groups, images, scale, shift, out, found, _number(eps), clients=len(scale))
        return out, found
    factor, constant = _of_images(scale, images), _of_images(shift, images)
    mean = _group_mean(images.sum(dim=1), images.shape[1], groups)
    centred = images - mean
    inverse = _group_mean(centred.square().sum(dim=1), images.shape[1], groups).add_(eps).rsqrt_()
    return torch.addcmul(constant, centred, factor * inverse), torch.cat([mean, inverse], dim=1)


def normalise_back(
    images: Tensor, delta: Tensor, scale: Tensor, found: Tensor, groups: int, *, through: bool
) -> tuple[Tensor, Tensor | None]:
    """Derivatives of each image by scale and by shift `[N, 2, C]`, and by the images, if it goes on `through` them."""
    images, delta, scale = (each.contiguous() for each in (images, delta, scale))
    _check(images, groups, scale)
    if delta.shape != images.shape or found.shape != (len(images), 2, images.shape[-1]):
        raise ValueError(f"derivatives {tuple(delta.shape)} do not fit images {tuple(images.shape)}")
    if _takes(images, delta, scale, found):
        back, rows = torch.empty_like(images) if through else None, torch.empty_like(found)
        _run(_BACK, groups, images, delta, scale, found.contiguous(), back, rows, clients=len(scale))
        return rows, back
    points, (mean, inverse) = images.shape[1], found.unsqueeze(2).unbind(1)
    centred = images - mean
    by_shift = delta.sum(dim=1)
    by_scale = (delta * centred).sum(dim=1).mul_(inverse.squeeze(1))
    rows = torch.stack([by_scale, by_shift], dim=1)
    if not through:
        return rows, None
    factor = _of_images(scale, images)
    level = _group_mean(factor.squeeze(1) * by_shift, points, groups).mul_(-inverse)
    tilt = _group_mean(factor.squeeze(1) * by_scale, points, groups).mul_(-inverse * inverse)
    return rows, torch.addcmul(level, centred, tilt).addcmul_(delta, factor * inverse)


_NORMALISE, _BACK = 13, 14


def _takes(*values: Tensor) -> bool:
    here = all(each.device.type == "cpu" and each.dtype == torch.float32 for each in values)
    return bool(VECTOR_WIDTHS) and here and values[0].numel() > 0


def _check(images: Tensor, groups: int, *weights: Tensor) -> None:
    pictures, _, channels = images.shape
    if any(each.shape != (len(weights[0]), channels) or pictures % len(each) for each in weights):
        raise ValueError(f"weights {tuple(weights[0].shape)} do not fit images {tuple(images.shape)}")
    if groups < 1 or channels % groups:
        raise ValueError(f"{channels} channels are not {groups} groups")


def _run(kernel: int, groups: int, images: Tensor, *rest: Tensor | None, clients: int) -> None:
    pictures, points, channels = images.shape
    sizes = sizes_of(clients=clients, slots=pictures // clients, channels=channels, filters=groups, width=points)
    room = np.empty(2 * channels + 64, np.float32)
    call(Call(kernel, VECTOR_WIDTHS[0], clients, sizes, room, (images, *rest)))


@lru_cache(maxsize=64)
def _number(value: float) -> Tensor:
    return torch.tensor([value])


def _of_images(weights: Tensor, images: Tensor) -> Tensor:
    """Each image's own `[N, 1, C]`, of weights `[K, C]`."""
    return weights.repeat_interleave(len(images) // len(weights), dim=0).unsqueeze(1)


def _group_mean(sums: Tensor, points: int, groups: int) -> Tensor:
    """From each channel's sum over its points `[N, C]` the mean of its group, for every channel `[N, 1, C]`."""
    members = sums.shape[1] // groups
    means = sums.view(len(sums), groups, members).sum(dim=2) / (points * members)
    return torch.repeat_interleave(means, members, dim=1).unsqueeze(1)
