"""What a client sees of its own noise, on the tensors. Only pass or fail leaves it: no size, norm or digest.

A value measured on the noise, held beside the noisy update, would help to test for a record. So everything is compared
here, with what was declared, and kept in this process (`NoiseMemory`) only to notice that noise comes back.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedveil.core.parameters import Layout
from fedveil.mechanisms.noise import grid_width

MEASURED_DEVIATIONS = 7.0
"""How many standard errors something measured may lie off what is declared."""

MEASURED_COORDINATES = 20_000
"""How many noise coordinates of a round are measured, spread evenly over its steps."""

LOOKED_AT = 64
"""Coordinates, spread over the whole vector, that are looked at in every step."""

PARTS = 4
"""Pieces of a layer whose noise is measured by itself."""

FEWEST_POINTS = 12
"""With fewer, two independent noises could look alike: a point tells them apart with 5 bits."""

KEPT_FINGERPRINTS = 1 << 18
NEAR_ZERO = 2.0**20
"""In cells: what is closer to 0 shows in single precision, too, whether it lies on the grid."""


@dataclass
class NoiseMemory:
    """What one process remembers of the noise and the draws that it has seen, over rounds and clients."""

    fingerprints: dict[int, Hashable] = field(default_factory=dict)
    report_squares: float = 0.0  # in units of the declared variance
    reports: int = 0
    batch_sums: float = 0.0  # of deviations from the expected batch size, in standard deviations
    batch_squares: float = 0.0
    batch_spread: float = 0.0  # the variance of a sum of squares
    batches: int = 0
    cohort: tuple[int, ...] | None = None
    same_cohorts: float = 0.0  # the logarithm of the chance that cohorts repeat as often as they just did

    def confirms_cohort(self, cohort: Sequence[int], candidates: int, expected: float) -> bool:
        """Whether a cohort, drawn from so many candidates, does not come back more often than chance has it."""
        chance = min(expected / max(candidates, 1), 1.0)
        by_coins = candidates * math.log(chance**2 + (1 - chance) ** 2)
        left = candidates - len(cohort)
        of_fixed_size = math.lgamma(len(cohort) + 1) + math.lgamma(left + 1) - math.lgamma(candidates + 1)
        repeated = max(by_coins, of_fixed_size)
        self.same_cohorts = self.same_cohorts + repeated if tuple(cohort) == self.cohort else 0.0
        self.cohort = tuple(cohort)
        return self.same_cohorts > -(MEASURED_DEVIATIONS**2) / 2

    def returns(self, fingerprint: int, owner: Hashable) -> bool:
        """Whether this noise was seen before, with another owner (the step of a round of a client)."""
        known = self.fingerprints.setdefault(fingerprint, owner)
        if len(self.fingerprints) > KEPT_FINGERPRINTS:
            del self.fingerprints[next(iter(self.fingerprints))]
        return known != owner

    def confirms_reports(self, noise: Tensor, std: float) -> bool:
        """Whether the noise on reports is there, and of its size over all that were seen."""
        self.report_squares += float(noise.square().sum()) / std**2
        self.reports += noise.numel()
        return bool((noise != 0).all()) and as_declared(self.report_squares / self.reports, 1.0, self.reports)

    def confirms_batches(self, counts: Tensor, records: Sequence[int], expected: int) -> bool:
        """Whether the sizes `[K, steps]` of Poisson batches vary as they must, over all that were seen."""
        for sizes, held in zip(counts.double(), records, strict=True):
            variance = expected * (1 - expected / held)
            if variance == 0:
                continue
            deviations = (sizes - expected) / math.sqrt(variance)
            self.batch_sums += float(deviations.sum())
            self.batch_squares += float((deviations.square() - 1).sum())
            self.batch_spread += len(sizes) * (2 + 1 / variance)  # fourth moment of a binomial, from above
            self.batches += len(sizes)
        return (
            abs(self.batch_sums) <= MEASURED_DEVIATIONS * math.sqrt(self.batches) + 1e-9
            and abs(self.batch_squares) <= MEASURED_DEVIATIONS * math.sqrt(self.batch_spread) + 1e-9
        )


@dataclass(frozen=True)
class Glimpse:
    """Some coordinates of K clients' sums before their noise."""

    some: slice
    values: Tensor  # [K, width]
    points: Tensor  # [K, points]


class Witness:
    """Watches one mechanism at work for one round, on K clients side by side.

    Confirmed is noise that is there in every step, of the declared size in every part of every layer and at every point
    that is looked at, on its grid, added to numbers that are finite, and that has not been seen before.
    """

    def __init__(self, layout: Layout, std: float, *, round: int, steps: int, memory: NoiseMemory) -> None:
        self._std, self._round, self._memory = std, round, memory
        self._size = layout.size
        self._width = min(-(-MEASURED_COORDINATES // max(steps, 1)), self._size)
        self._parts = _parts(layout)
        self._places = torch.linspace(0, self._size - 1, min(LOOKED_AT, self._size)).long()
        self._squares: Tensor | None = None  # [K, parts]
        self._counts = torch.zeros(int(self._parts[-1]) + 1, dtype=torch.float64)
        self._point_squares: Tensor | None = None  # [K, points]
        self._good: Tensor | None = None  # [K]
        self._fingerprints: list[list[int]] = []
        self.steps = 0

    def before(self, sums: Tensor) -> Glimpse:
        """Look at sums `[K, P]` that are about to be noised. The coordinates change from step to step and round."""
        first = (self._round * MEASURED_COORDINATES + self.steps * self._width) % (self._size - self._width + 1)
        some = slice(first, first + self._width)
        return Glimpse(some, sums[:, some].clone(), sums[:, self._places])

    def after(self, seen: Glimpse, sums: Tensor, grid: float | None = None) -> None:
        """Look at the same sums with their noise; `grid` is that of the noise, where it was not drawn on the sum."""
        released = sums[:, seen.some].double()
        noise = released - seen.values
        points = sums[:, self._places].double() - seen.points
        if self._squares is None or self._point_squares is None or self._good is None:
            self._squares = torch.zeros(len(sums), len(self._counts), dtype=torch.float64)
            self._point_squares = torch.zeros_like(points)
            self._good = torch.ones(len(sums), dtype=torch.bool)
        parts = self._parts[seen.some]
        self._squares.index_add_(1, parts, noise.square())
        self._counts.index_add_(0, parts, torch.ones(len(parts), dtype=torch.float64))
        self._point_squares += points.square()
        self._good &= torch.isfinite(seen.values).all(dim=-1)
        if self._std > 0:
            self._good &= (noise != 0).any(dim=-1) & _on_grid(released, grid or grid_width(self._std))
            if points.shape[1] >= FEWEST_POINTS:
                marks = (points * (16 / self._std)).round_().clamp_(-127, 127).to(torch.int8).numpy()
                self._fingerprints.append([hash(row.tobytes()) for row in marks])
        self.steps += 1

    def confirmed(self, owners: Sequence[Hashable]) -> list[bool]:
        """Whether all was as declared, for each of the K whose noise it was."""
        if self._squares is None or self._point_squares is None or self._good is None:
            return [True] * len(owners)  # no step at all
        good = self._good.tolist()
        for step, words in enumerate(self._fingerprints):
            for k, owner in enumerate(owners):
                good[k] &= not self._memory.returns(words[k], (owner, self._round, step))
        means, counts = (self._squares / self._counts.clamp_min(1)).tolist(), self._counts.tolist()
        at_points = (self._point_squares / self.steps).tolist()
        return [
            good[k]
            and all(as_declared(mean, self._std, int(n)) for mean, n in zip(means[k], counts, strict=True) if n)
            and all(as_declared(mean, self._std, self.steps) for mean in at_points[k])
            for k in range(len(owners))
        ]


def as_declared(mean_square: float, declared: float, count: int) -> bool:
    """Whether the mean square of `count` noise coordinates fits a standard deviation of `declared`.

    Relative to its expectation it is χ²/count, whose cube root is close to normal with mean 1 − 2/(9·count) and
    variance 2/(9·count) even for few coordinates (Wilson and Hilferty 1931), so that a small model's missing noise is
    not taken for chance. 1e-3 is room for sums in single precision. Where no noise is declared none may be measured,
    and noise that is declared may not measure zero.
    """
    if declared == 0 or mean_square == 0:
        return mean_square == declared == 0
    variance = 2 / (9 * max(count, 1))
    room = MEASURED_DEVIATIONS * math.sqrt(variance)
    low, high = (max(1 - variance - room, 0.0) ** 3, (1 - variance + room) ** 3)
    return low - 1e-3 <= mean_square / declared**2 <= high + 1e-3


def rows_confirmed(before: Tensor, rows: Tensor, std: float) -> bool:
    """Whether each of the rows `[K, B, P]` carries noise of its own, of the declared size."""
    squares = (rows.double() - before).square().mean(dim=-1).flatten().tolist()
    return all(as_declared(mean, std, rows.shape[-1]) for mean in squares)


def within_bound(norms: Tensor, factors: Tensor, bound: float, *, by_layer: bool) -> bool:
    """Whether rows with these norms `[..., M]`, multiplied with their factors, are not longer than the bound."""
    after = torch.where(factors > 0, norms * factors, torch.zeros((), dtype=norms.dtype)).double()
    lengths = after if by_layer else after.square().sum(dim=-1).sqrt()
    return bool((lengths <= bound * (1 + 1e-6)).all())


def _on_grid(released: Tensor, grid: float) -> Tensor:
    """Whether values `[K, n]` lie on the grid of their noise, as far as they are small enough to tell."""
    cells = released / grid
    off = (cells - cells.round()).abs()
    return ((off < 0.1) | (cells.abs() >= NEAR_ZERO)).all(dim=-1)


def _parts(layout: Layout) -> Tensor:
    """The number `[P]` of the piece of a layer that each coordinate belongs to."""
    numbers = torch.empty(layout.size, dtype=torch.int64)
    for group, part in enumerate(layout.group_slices):
        size = part.stop - part.start
        numbers[part] = group * PARTS + torch.arange(size) * PARTS // max(size, 1)
    return numbers
