"""Pictures of things that do not exist, drawn by code from a fixed seed: public by construction.

`leaves` are overlapping shapes of all sizes, each with a tone and a shade of its own: photographs have much the same
statistics of edges (the "dead leaves" of image analysis). `silhouettes` are single things with a filling on a black
ground. What `whitened` makes of their features says which directions vary in any picture and which hardly do; no record
of anybody enters.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

SCENE_SHAPES, FILLING_SHAPES = 40, 12
"""Shapes that are laid over one another, in a scene and in a silhouette's filling; a fifth of them are left out."""
SMALLEST_LEAF, LARGEST_LEAF = 2.0, 20.0
"""Radii of leaves in pixels, of a picture of 32. Areas are shared evenly between radii, so small ones are frequent."""
SILHOUETTE_PARTS = 4
"""Shapes that a silhouette has at most."""


def leaves(count: int, channels: int, size: int, seed: int, shapes: int = SCENE_SHAPES) -> Tensor:
    """`[count, channels, size, size]` in [0, 1]."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    y, x = _grid(size)
    scenes = uniform(count, channels, 1, 1).expand(-1, -1, size, size)
    scenes = scenes + (uniform(count, channels, 1, 1) - 0.5) * 0.6 * y / size
    scenes = scenes + (uniform(count, channels, 1, 1) - 0.5) * 0.6 * x / size
    for _ in range(shapes):
        across, down = (uniform(count, 1, 1) - 0.5) * size, (uniform(count, 1, 1) - 0.5) * size
        shares = uniform(count, 1, 1) * (SMALLEST_LEAF**-2 - LARGEST_LEAF**-2) + LARGEST_LEAF**-2
        radius = shares.rsqrt() * size / 32
        stretch, angle = torch.exp((uniform(count, 1, 1) - 0.5) * 1.6), uniform(count, 1, 1) * math.pi
        along = ((x - across) * angle.cos() + (y - down) * angle.sin()) / stretch
        beside = ((y - down) * angle.cos() - (x - across) * angle.sin()) * stretch
        ellipse = (along.square() + beside.square()).sqrt() - radius
        box = torch.maximum(along.abs(), beside.abs()) - 0.8 * radius
        inside = (0.5 - torch.where(uniform(count, 1, 1) < 0.6, ellipse, box)).clamp(0, 1)[:, None]
        tone = uniform(count, 1, 1, 1)
        if channels > 1:
            tone = tone + (uniform(count, channels, 1, 1) - 0.5) * 0.5
        shade = (uniform(count, 1, 1, 1) - 0.5) * 0.5 * (along / (radius + 1)).clamp(-1, 1)[:, None]
        laid = scenes * (1 - inside) + (tone + shade) * inside
        scenes = torch.where(uniform(count, 1, 1, 1) < 0.8, laid, scenes)
    grain = 0.03 * torch.randn(count, channels, size, size, generator=generator)
    return (scenes + grain).clamp(0, 1)


def silhouettes(count: int, size: int, seed: int) -> Tensor:
    """`[count, 1, size, size]` in [0, 1]: up to four large shapes together, filled with leaves, on black."""
    generator = torch.Generator().manual_seed(seed)

    def uniform() -> Tensor:
        return torch.rand(count, 1, 1, generator=generator)

    y, x = (2 * line / size for line in _grid(size))
    inside = torch.zeros(count, size, size)
    for part in range(SILHOUETTE_PARTS):
        across, down = (uniform() - 0.5) * 1.1, (uniform() - 0.5) * 1.1
        width, height = 0.15 + 0.75 * uniform(), 0.15 + 0.75 * uniform()
        angle = (uniform() - 0.5) * math.pi * (uniform() < 0.5)
        corners = torch.where(uniform() < 0.5, 2.0, 8.0)  # an ellipse, or nearly a box
        along = (x - across) * angle.cos() + (y - down) * angle.sin()
        beside = (y - down) * angle.cos() - (x - across) * angle.sin()
        distance = ((along / width).abs() ** corners + (beside / height).abs() ** corners) ** (1 / corners) - 1
        filled = (0.5 - distance * size / 2 * torch.minimum(width, height)).clamp(0, 1)
        inside = torch.maximum(inside, filled * (uniform() < 0.6) if part else filled)
    tones = 0.5 * leaves(count, 1, size, seed + 1, FILLING_SHAPES) + 0.7 * uniform()[:, None]
    return (tones * inside[:, None]).clamp(0, 1)


def whitened(features: Tensor, outputs: int, shrinkage: float) -> tuple[Tensor, Tensor]:
    """The mean, and the `[features, outputs]` directions that vary most, each scaled to vary equally.

    `shrinkage` of the mean variance is added to every direction's own, so that weak ones are not blown up.
    """
    centred = features.double()
    mean = centred.mean(dim=0)
    centred = centred - mean
    variances, directions = torch.linalg.eigh(centred.T @ centred / len(centred))
    variances = variances.clamp(min=0) + shrinkage * variances.clamp(min=0).mean()
    basis = (directions * variances.rsqrt())[:, -outputs:].flip(1)
    signs = basis.gather(0, basis.abs().argmax(dim=0, keepdim=True)).sign()  # an eigenvector's sign is arbitrary
    return mean.float(), (basis * signs).float()


def told_apart(first: Tensor, second: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """A direction and a threshold: features along it are about 1 above the threshold for the first kind, 1 below for
    the second. By least squares, with so much of a ridge; both kinds count the same.
    """
    rows = torch.cat([first, second]).double()
    rows = torch.cat([rows, torch.ones(len(rows), 1, dtype=rows.dtype)], dim=1)
    goals = torch.cat([torch.ones(len(first)), -torch.ones(len(second))]).double()
    weights = torch.cat([torch.full((len(part),), 1 / len(part)) for part in (first, second)]).double()
    square = (rows * weights[:, None]).T @ rows + ridge * torch.eye(rows.shape[1], dtype=rows.dtype)
    solved = torch.linalg.solve(square, rows.T @ (weights * goals))
    return solved[:-1].float(), -solved[-1].float()


def _grid(size: int) -> tuple[Tensor, Tensor]:
    """Rows and columns of pixels, from the middle."""
    line = torch.arange(size) - (size - 1) / 2
    y, x = torch.meshgrid(line, line, indexing="ij")
    return y, x
