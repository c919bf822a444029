"""Fixed features of pictures: what is computed from a record and never trained.

A first part without parameters costs no privacy, whatever it computes, as long as it was not made from the private
records. What is left to train is a linear model, which a noisy gradient can still find.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

ORIENTATIONS = 8
RADIUS = 3
"""Filters are 7×7: more than two standard deviations of their window."""
SCALE, FREQUENCY = 0.8, 3 * math.pi / 4
"""Standard deviation of the window and centre frequency of the finest wavelet, the usual ones of scattering."""
CELLS, COARSE_CELLS = 7, 3
"""The grids over which first-order and second-order energies are averaged."""
FLOOR = 1e-4
"""Keeps roots differentiable where a picture is black, for those who differentiate twice."""


class FixedFeatures(nn.Module):
    """A first part without parameters, the same for a record in every round: a run computes it once per record.

    It sees records of several clients at a time, so what it makes of one must not depend on the others. It is never in
    training mode, in which records may influence one another: what `registry.check` checks is what runs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.outputs = 0

    def train(self, mode: bool = True) -> Self:
        return super().train(False)


def wavelets(orientations: int = ORIENTATIONS) -> Tensor:
    """Morlet wavelets `[2·orientations, 1, 7, 7]`: real parts, then imaginary parts; each without mean."""
    line = torch.arange(-RADIUS, RADIUS + 1, dtype=torch.float64)
    y, x = torch.meshgrid(line, line, indexing="ij")
    filters = []
    for index in range(orientations):
        angle = math.pi * index / orientations
        along = x * math.cos(angle) + y * math.sin(angle)
        across = y * math.cos(angle) - x * math.sin(angle)
        window = torch.exp(-(along.square() + across.square() / 4) / (2 * SCALE**2))
        wave = window * torch.exp(1j * FREQUENCY * along)
        wave = wave - window * (wave.sum() / window.sum())
        filters.append(wave / (4 * math.pi * SCALE**2))
    together = torch.stack(filters)
    return torch.cat([together.real, together.imag])[:, None].float()


def windows(size: int, cells: int) -> Tensor:
    """Averages over `cells` overlapping Gaussian windows of a line of `size` pixels: `[cells, size]`."""
    width = size / cells
    centres = (torch.arange(cells, dtype=torch.float64) + 0.5) * width - 0.5
    pixels = torch.arange(size, dtype=torch.float64)
    weights = torch.exp(-((pixels - centres[:, None]) / width).square() * 2)
    return (weights / weights.sum(dim=1, keepdim=True)).float()


class Scattering(FixedFeatures):
    """Energies of oriented waves over a coarse grid, and of the waves in those energies (Bruna and Mallat, 2013).

    Brightness per channel and wavelet moduli at two scales over 7×7 cells, second-order moduli over 3×3 cells; the root
    of each. Small shifts and bends of a stroke hardly move them. `outputs` is their number.
    """

    filters: Tensor
    half_rows: Tensor
    half_columns: Tensor
    cell_rows: Tensor
    cell_columns: Tensor
    coarse_rows: Tensor
    coarse_columns: Tensor

    def __init__(self, input_shape: Sequence[int]) -> None:
        super().__init__()
        channels, height, width = input_shape
        half_height, half_width = (height + 1) // 2, (width + 1) // 2
        self.register_buffer("filters", wavelets())
        for name, size, half in (("rows", height, half_height), ("columns", width, half_width)):
            self.register_buffer(f"half_{name}", windows(size, half))
            self.register_buffer(f"cell_{name}", windows(half, CELLS))
            self.register_buffer(f"coarse_{name}", windows((half + 1) // 2, COARSE_CELLS))
        self.outputs = (channels + 2 * ORIENTATIONS) * CELLS**2 + ORIENTATIONS**2 * COARSE_CELLS**2

    def forward(self, inputs: Tensor) -> Tensor:
        half = _pooled(inputs, self.half_rows, self.half_columns)
        fine = _pooled(self._moduli(inputs.mean(dim=1, keepdim=True)), self.half_rows, self.half_columns)
        coarse = self._moduli(half.mean(dim=1, keepdim=True))
        second = self._moduli(fine.reshape(-1, 1, *fine.shape[2:]), stride=2)
        second = second.reshape(len(inputs), -1, *second.shape[2:])
        first = _pooled(torch.cat([half, fine, coarse], dim=1), self.cell_rows, self.cell_columns)
        second = _pooled(second, self.coarse_rows, self.coarse_columns)
        energies = torch.cat([first.flatten(1), second.flatten(1)], dim=1)
        return (energies.clamp(min=0) + FLOOR).sqrt()

    def _moduli(self, pictures: Tensor, stride: int = 1) -> Tensor:
        """`[N, 1, H, W]` to `[N, orientations, …]`."""
        waves = functional.conv2d(pictures, self.filters, stride=stride, padding=RADIUS)
        real, imaginary = waves[:, :ORIENTATIONS], waves[:, ORIENTATIONS:]
        return (real.square() + imaginary.square() + FLOOR**2).sqrt()


def _pooled(maps: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    return rows @ (maps @ columns.mT)


class Projected(FixedFeatures):
    """Other features, centred and turned into a basis (or left as they are), each record's then of length 1.

    Length 1 makes every example's gradient of a linear model with a bias at most 2 long, so clipping hardly bites.
    """

    mean: Tensor
    basis: Tensor | None

    def __init__(self, first: FixedFeatures, mean: Tensor, basis: Tensor | None) -> None:
        super().__init__()
        self.first = first
        self.register_buffer("mean", mean)
        self.register_buffer("basis", basis)
        self.outputs = first.outputs if basis is None else basis.shape[1]

    def forward(self, inputs: Tensor) -> Tensor:
        centred = self.first(inputs) - self.mean
        turned = centred if self.basis is None else centred @ self.basis
        return functional.normalize(turned, dim=1)


class TwoBases(FixedFeatures):
    """The same features in two bases. The more a picture looks like those behind the first, the longer is that part.

    What a picture looks like is a number of its own, between 0 and 1: the logistic function of a sum over its
    features. Both parts together have length 1.
    """

    means: Tensor
    first_basis: Tensor
    second_basis: Tensor
    gate: Tensor
    threshold: Tensor

    def __init__(
        self,
        first: FixedFeatures,
        means: Tensor,
        first_basis: Tensor,
        second_basis: Tensor,
        gate: Tensor,
        threshold: Tensor,
    ) -> None:
        super().__init__()
        self.first = first
        self.register_buffer("means", means)
        self.register_buffer("first_basis", first_basis)
        self.register_buffer("second_basis", second_basis)
        self.register_buffer("gate", gate)
        self.register_buffer("threshold", threshold)
        self.outputs = first_basis.shape[1] + second_basis.shape[1]

    def forward(self, inputs: Tensor) -> Tensor:
        features = self.first(inputs)
        likeness = ((features - self.means[1]) @ self.gate - self.threshold)[:, None]
        shares = (likeness.sigmoid(), (-likeness).sigmoid())
        parts = [
            share.sqrt() * functional.normalize((features - mean) @ basis, dim=1)
            for share, mean, basis in zip(shares, self.means, (self.first_basis, self.second_basis), strict=True)
        ]
        return torch.cat(parts, dim=1)


class WithConstant(FixedFeatures):
    """Features of length 1 with a constant behind them, of length 1 together: it stands for the bias.

    A bias has an input of 1, so half of every example's gradient is of the bias, and the clip cuts the other half.
    """

    def __init__(self, first: FixedFeatures, constant: float) -> None:
        super().__init__()
        self.first, self.constant = first, constant
        self.outputs = first.outputs + 1

    def forward(self, inputs: Tensor) -> Tensor:
        features = self.first(inputs)
        return functional.normalize(functional.pad(features, (0, 1), value=self.constant), dim=1)
