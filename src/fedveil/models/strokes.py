"""Pictures of characters that nobody ever wrote, drawn by code from a fixed seed: public by construction.

Each character is up to three random curves; its samples differ as handwriting does: ends move, the hand slants, the
pen is thick or thin. What changes between samples of one character is what a reader should overlook, and what differs
between characters is what tells them apart; `contrast` turns that into a projection. No record of anybody, and no
digit, enters.
"""

from __future__ import annotations

import torch
from torch import Tensor

STROKES, POINTS = 3, 48
BOX = 18.0
"""Pixels that the longer side of a character takes, of 28."""
JITTER, TURN, SLANT, STRETCH = 0.14, 0.15, 0.3, 0.2
"""How far samples of a character differ: control points (of a square from −1 to 1), angle, slant, log of the width."""
JOINED, BRANCHED, SMOOTH = 0.6, 0.8, 0.5
"""A stroke begins where the last one ended, or (up to `BRANCHED`) in its middle, or anywhere; half go on smoothly."""

EMPHASIS = 0.25
"""The power of its ratio (between kinds to within them) with which a direction is weighted."""


def characters(kinds: int, samples: int, seed: int, size: int = 28) -> Tensor:
    """`[kinds · samples, 1, size, size]` in [0, 1], the samples of a kind one after another."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    time = torch.linspace(0, 1, POINTS)
    bezier = torch.stack([(1 - time) ** 3, 3 * time * (1 - time) ** 2, 3 * time**2 * (1 - time), time**3], dim=1)
    ends = uniform(kinds, STROKES, 4, 2) * 2 - 1
    joins, smooth = uniform(kinds, STROKES, 1), uniform(kinds, STROKES, 1) < SMOOTH
    fewer = torch.randint(1, STROKES + 1, (kinds,), generator=generator)[:, None] <= torch.arange(STROKES)
    joined = joins < JOINED
    for stroke in range(1, STROKES):
        before, now = ends[:, stroke - 1], ends[:, stroke]
        middle = (bezier[POINTS // 2] @ before).where(joins[:, stroke] < BRANCHED, now[:, 0])
        onward = 2 * before[:, 3] - before[:, 2]
        now[:, 0] = torch.where(joined[:, stroke], before[:, 3], middle)
        now[:, 1] = torch.where(joined[:, stroke] & smooth[:, stroke], onward, now[:, 1])
    moved = ends[:, None] + JITTER * normal(kinds, samples, STROKES, 4, 2)
    for stroke in range(1, STROKES):  # what is joined stays joined; a character of fewer strokes repeats its first
        meeting = moved[:, :, stroke - 1, 3]
        moved[:, :, stroke, 0] = torch.where(joined[:, stroke, None], meeting, moved[:, :, stroke, 0])
        moved[:, :, stroke] = torch.where(fewer[:, stroke, None, None, None], moved[:, :, 0], moved[:, :, stroke])
    curves = (bezier @ moved).reshape(kinds * samples, STROKES * POINTS, 2)
    count = len(curves)
    angle, slant, stretch = TURN * normal(count), SLANT * normal(count), torch.exp(STRETCH * normal(count))
    across = torch.stack([stretch * angle.cos(), slant - angle.sin()], dim=-1)
    down = torch.stack([angle.sin(), angle.cos()], dim=-1)
    curves = curves @ torch.stack([across, down], dim=-1)
    span = (curves.amax(dim=1) - curves.amin(dim=1)).amax(dim=-1).clamp(min=0.5)
    curves = (curves - curves.mean(dim=1, keepdim=True)) * (BOX * size / 28 / span)[:, None, None]
    curves += 0.5 * normal(count, 1, 2)
    return _drawn(curves, 0.8 + 1.2 * uniform(count), size)


def _drawn(curves: Tensor, thickness: Tensor, size: int) -> Tensor:
    """A pixel is as bright as it is near to a curve."""
    line = torch.arange(size) - (size - 1) / 2
    pixels = torch.cartesian_prod(line, line).flip(1).T  # rows of a picture are y
    pictures = []
    for points, thick in zip(torch.split(curves, 500), torch.split(thickness, 500), strict=True):
        squares = points.square().sum(dim=-1, keepdim=True)
        nearest = torch.baddbmm(squares, points, pixels.expand(len(points), -1, -1), alpha=-2).amin(dim=1)
        distance = (nearest + pixels.square().sum(dim=0)).clamp(min=0).sqrt()
        pictures.append((thick[:, None] - distance + 0.5).clamp(0, 1))
    return torch.cat(pictures).view(-1, 1, size, size)


def contrast(features: Tensor, kinds: int, outputs: int, shrinkage: float) -> tuple[Tensor, Tensor]:
    """The mean, and the `[features, outputs]` directions that differ most between kinds for what differs within them.

    Linear discriminant analysis; `shrinkage` of the mean variance is added to every direction, so that those that
    hardly change within a kind are not blown up. Directions that tell more kinds apart are a little longer.
    """
    groups = features.double().view(kinds, -1, features.shape[1])
    means = groups.mean(dim=1)
    mean = means.mean(dim=0)
    within = (groups - means[:, None]).flatten(0, 1)
    spread = within.T @ within / len(within)
    spread += shrinkage * spread.diagonal().mean() * torch.eye(len(spread), dtype=spread.dtype)
    root = torch.linalg.cholesky(spread)
    between = torch.linalg.solve_triangular(root, (means - mean).T, upper=False)
    ratios, directions = torch.linalg.eigh(between @ between.T / kinds)
    lengths = (ratios[-outputs:] / ratios[-1]).clamp(min=0) ** EMPHASIS
    chosen = (directions[:, -outputs:] * lengths).flip(1)
    basis = torch.linalg.solve_triangular(root.T, chosen, upper=True)
    signs = basis.gather(0, basis.abs().argmax(dim=0, keepdim=True)).sign()  # an eigenvector's sign is arbitrary
    return mean.float(), (basis * signs).float()
