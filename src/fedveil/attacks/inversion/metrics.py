"""How much was stolen: reconstructions against the truth. Only the judge runs this; no attack sees its results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional

from fedveil.attacks.inversion.invert import Reconstruction
from fedveil.attacks.inversion.minimise import iterations_of
from fedveil.attacks.inversion.victims import Truth

SUCCESS = 0.1
"""An attack succeeds where the RMSE is below this: digits with visible noise. A constant guess has 0.31 on MNIST."""

SSIM_WINDOW = 7
MOST_PSNR = 100.0
"""Decibels of a reconstruction that is exact to rounding."""

NEAR_NUMBER = 0.02
"""A label that is a number counts as found within a hundredth of its public range."""


@dataclass(frozen=True)
class Score:
    """One victim: means over its records, matched to the originals by the best assignment."""

    client: int
    success: bool
    rmse: float
    mse: float
    psnr: float
    ssim: float | None  # pictures only
    label_accuracy: float
    iterations: int  # to success; all that were made, where there was none
    distance: float  # between the gradients, as the adversary sees it

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def matched(reconstructed: Tensor, true: Tensor) -> tuple[Tensor, Tensor]:
    """Which found record stands for which true one: the assignment with the least squared error in all."""
    if len(reconstructed) == len(true) == 1:
        return torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    costs = torch.cdist(reconstructed.flatten(1).double(), true.flatten(1).double()).square()
    rows, columns = linear_sum_assignment(np.nan_to_num(costs.numpy(), nan=1e30, posinf=1e30))
    return torch.from_numpy(rows), torch.from_numpy(columns)


def scores(reconstruction: Reconstruction, truth: Truth, successes: Successes) -> list[Score]:
    """One score per victim. The range of the values (for PSNR and SSIM) is 1 for pictures, else the truth's own."""
    pictures = truth.inputs.ndim == 5
    true_values = truth.inputs
    span = 1.0 if pictures else max(float(true_values.max() - true_values.min()), 1e-12)
    return [_score(reconstruction, truth, victim, span, pictures, successes) for victim in range(len(truth.clients))]


def _score(
    reconstruction: Reconstruction, truth: Truth, victim: int, span: float, pictures: bool, successes: Successes
) -> Score:
    count = int(truth.counts[victim])
    true, labels = truth.inputs[victim, :count], truth.labels[victim, :count]
    rows, columns = matched(reconstruction.inputs[victim], true)
    guess, true = reconstruction.inputs[victim][rows], true[columns]
    errors = (guess - true).flatten(1).double().square().mean(dim=1)
    rmse = float(errors.sqrt().mean())
    right = _right(reconstruction.labels[victim][rows], labels[columns]).double().mean()
    success = rmse < successes.threshold
    first = successes.first.get(victim)
    return Score(
        client=truth.clients[victim],
        success=success,
        rmse=rmse,
        mse=float(errors.mean()),
        psnr=float((10 * (span**2 / errors.clamp_min(1e-300)).log10()).clamp_max(MOST_PSNR).mean()),
        ssim=float(ssim(guess, true).mean()) if pictures else None,
        label_accuracy=float(right),
        iterations=first if success and first is not None else int(reconstruction.iterations[victim]),
        distance=float(reconstruction.distances[victim]),
    )


def _right(guess: Tensor, true: Tensor) -> Tensor:
    """Which labels were found: the same class, or a number as close as that."""
    return (guess - true).abs() <= NEAR_NUMBER if true.is_floating_point() else guess == true


def _means(values: Tensor, window: int) -> Tensor:
    return functional.avg_pool2d(values, window, stride=1)


def ssim(first: Tensor, second: Tensor) -> Tensor:
    """Structural similarity `[n]` of pictures `[n, C, H, W]` in [0, 1]: 7×7 windows (Wang et al., 2004)."""
    window = min(SSIM_WINDOW, *first.shape[2:])
    pixels = window * window
    first, second = first.double(), second.double()
    one, two = _means(first, window), _means(second, window)
    unbiased = pixels / max(pixels - 1, 1)
    variance_one = unbiased * (_means(first * first, window) - one * one)
    variance_two = unbiased * (_means(second * second, window) - two * two)
    covariance = unbiased * (_means(first * second, window) - one * two)
    small, smaller = 0.01**2, 0.03**2
    likeness: Tensor = (2 * one * two + small) * (2 * covariance + smaller)
    scale: Tensor = (one**2 + two**2 + small) * (variance_one + variance_two + smaller)
    return (likeness / scale).flatten(1).mean(dim=1)


class Successes:
    """Watches the attacks: in which iteration each victim's records were first reconstructed."""

    def __init__(self, truth: Truth, threshold: float) -> None:
        self._truth, self.threshold = truth, threshold
        self.first: dict[int, int] = {}

    def __call__(self, members: Tensor, updates: Tensor, inputs: Tensor) -> None:
        for victim, iteration, records in zip(members.tolist(), iterations_of(updates).tolist(), inputs, strict=True):
            if victim not in self.first and self._error(victim, records) < self.threshold:
                self.first[victim] = iteration

    def _error(self, victim: int, records: Tensor) -> float:
        true = self._truth.inputs[victim, : int(self._truth.counts[victim])]
        rows, columns = matched(records, true)
        return float((records[rows] - true[columns]).flatten(1).square().mean(dim=1).sqrt().mean())


@dataclass(frozen=True)
class AttackSummary:
    """Means and standard deviations over victims (and seeds)."""

    means: dict[str, float | None]
    deviations: dict[str, float | None]

    @property
    def success_rate(self) -> float:
        return float(self.means["success"] or 0.0)

    @property
    def strength(self) -> tuple[float, float]:
        """Orders attackers: who succeeds more often, then who comes closer."""
        return self.success_rate, -float(self.means["rmse"] or 0.0)

    def to_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"success_rate": self.success_rate}
        for name in SCORED:
            fields[name] = self.means[name]
            fields[f"{name}_std"] = self.deviations[name]
        return fields


SCORED = ("rmse", "mse", "psnr", "ssim", "label_accuracy", "iterations")


def summarise_scores(scored: Sequence[Score]) -> AttackSummary:
    means: dict[str, float | None] = {}
    deviations: dict[str, float | None] = {}
    for name in ("success", *SCORED):
        values = [float(getattr(score, name)) for score in scored if getattr(score, name) is not None]
        finite = bool(values) and all(map(math.isfinite, values))
        means[name] = statistics.fmean(values) if finite else None
        deviations[name] = statistics.pstdev(values) if finite else None
    return AttackSummary(means, deviations)


def blind_rmse(truth: Truth) -> float:
    """The RMSE of the best constant: what an adversary reaches who has stolen nothing."""
    records = torch.cat([truth.inputs[v, : int(count)] for v, count in enumerate(truth.counts)]).flatten(1).double()
    return float((records - records.mean()).square().mean(dim=1).sqrt().mean())
