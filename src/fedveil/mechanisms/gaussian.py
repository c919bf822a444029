"""The Gaussian mechanism: clip, sum, add noise. What it does and what it declares come from the same fields."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedveil.core.checks import FieldError, not_negative, one_of, within
from fedveil.core.streams import Address, Purpose
from fedveil.core.types import Declaration, Sampling, Unit
from fedveil.mechanisms.adaptive import Adaptive, CohortMedian, Reported
from fedveil.mechanisms.arithmetic import NORM_MARGIN
from fedveil.mechanisms.clip import Clip, Limit
from fedveil.mechanisms.noise import NoiseSource, grid_width
from fedveil.mechanisms.schedules import Constant, Schedule, schedule

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Adds Gaussian noise of standard deviation σ_t·C_t per coordinate to clipped rows or to their sum.

    Guarantee: one step is a Gaussian mechanism with noise multiplier z = sum_std / S for one row added to or removed
    from the sum, where S is the clip's sensitivity (`Clip.sensitivity`) and sum_std is

    - `noise="sum"`: σ·C, one draw on the sum;
    - `noise="row"`: σ·C·sqrt(B), that of B rows with N(0, σ²C²) each (Fed-CDP, Algorithm 2, line 14). It is drawn
      once, on the sum, which has the same distribution.

    In both cases the rows in the device's memory are clean, and `on_device` sees them so. With `each_row` (which needs
    `noise="row"`) every one of the declared B rows gets its own N(0, σ²C²): a row by itself is then a Gaussian
    mechanism with z = σC / S, and the sum of the rows has the same noise as before.

    B is the *declared* number of rows, a public constant; the realised number enters nowhere. σ = 0 clips only and
    guarantees nothing. `course` makes σ_t = σ·course(t) follow a public schedule. Where the bound follows the norms, z
    holds for the sum and the norms' noisy reports together (`adaptive.py`).
    """

    clip: Clip
    sigma: float
    noise: str = "sum"
    unit: Unit = Unit.RECORD
    course: Schedule = field(default_factory=lambda: Constant(1.0))
    each_row: bool = False  # every row in the device's memory carries its own noise, drawn by itself

    def __post_init__(self) -> None:
        object.__setattr__(self, "course", schedule(self.course))
        not_negative("sigma", self.sigma)
        within("sigma", self.sigma, 0, 1e6)
        one_of("noise", self.noise, ("row", "sum"))
        if self.each_row and self.noise != "row":
            raise FieldError("each_row", "noises every row by itself, so it needs noise = 'row'")
        if self.clip.adaptive is not None:
            if self.clip.by != "flat" or self.noise != "sum":
                raise FieldError("clip.bound", "follows the norms only for flat clipping with noise on the sum")
            if isinstance(self.clip.adaptive, Reported) and self.sigma > 0:
                self.clip.adaptive.share_of(self.sigma)

    @property
    def adaptive(self) -> Adaptive | None:
        return self.clip.adaptive

    def at(self, round: int, rounds: int, current: float | None = None) -> GaussianRound:
        """The mechanism as it is in one round; `current` is the value of an adaptive bound."""
        sigma = self.sigma * self.course.at(round, rounds)
        rule = self.adaptive
        reporter = rule if isinstance(rule, Reported) and rule.reports_in(round) else None
        return GaussianRound(
            clip=self.clip,
            noise=self.noise,
            each_row=self.each_row,
            unit=self.unit,
            bound=self.clip.at(round, rounds, current),
            sigma=sigma if reporter is None or sigma == 0 else reporter.share_of(sigma),
            reporter=reporter,
        )


@dataclass(frozen=True, kw_only=True)
class GaussianRound:
    """A Gaussian mechanism with the bound C_t and the σ_t of one round, and the rule that norms are reported to."""

    clip: Clip
    noise: str
    each_row: bool
    unit: Unit
    bound: float
    sigma: float
    reporter: Reported | None

    @property
    def row_std(self) -> float:
        """Noise on one row as the `on_device` view sees it: none where it is drawn on the sum."""
        return self.sigma * self.bound if self.each_row else 0.0

    def sum_std(self, rows: float) -> float:
        """Noise on the sum of a declared number of rows."""
        return self.sigma * self.bound * (math.sqrt(rows) if self.noise == "row" else 1.0)

    def limit(self, margin: float = NORM_MARGIN) -> Limit:
        """What rows are clipped at."""
        return self.clip.limit(self.bound, margin)

    def factors(self, norms: Tensor, margin: float = NORM_MARGIN) -> Tensor:
        """What rows with these norms `[..., M]` are multiplied with."""
        return self.limit(margin)(norms)

    def multiplier(self, rows: float, layers: int) -> float:
        """z: the noise on a sum of a declared number of rows, in units of its sensitivity."""
        return self.sum_std(rows) / self.clip.sensitivity(self.bound, layers)

    def declare(
        self,
        *,
        place: str,
        layers: int,
        steps: int,
        sampling: Sampling,
        rows: float | None = None,
        adds_up: bool = False,
    ) -> Declaration:
        """What `steps` steps do to one client; `rows` is the number of rows in a sum, if not the batch's."""
        return Declaration(
            place=place,
            unit=self.unit,
            steps=steps,
            bound=self.bound,
            sensitivity=self.clip.sensitivity(self.bound, layers),
            sum_std=self.sum_std(sampling.batch if rows is None else rows),
            row_std=self.row_std,
            sampling=sampling,
            report=None if self.reporter is None else self.reporter.multiplier,
            leaks_bound=isinstance(self.clip.bound, CohortMedian),
            adds_up=adds_up,
        )

    def add_to_sums(
        self,
        sums: Tensor,
        *,
        rows: float,
        source: NoiseSource,
        addresses: Sequence[Address],
        purpose: Purpose = Purpose.EXAMPLE_NOISE,
    ) -> None:
        """Noise the sums `[K, P]` in place; row `k` draws from the stream at `addresses[k]`."""
        if self.sigma > 0:
            source.add(purpose, addresses, sums, self.sum_std(rows))

    def add_to_rows(self, rows: Tensor, *, source: NoiseSource, addresses: Sequence[Address]) -> Tensor:
        """Noise every row of `[K, B, P]` by itself, in place; their exact sums `[K, P]`, in double precision."""
        if not self.row_std > 0:
            return rows.double().sum(dim=1)
        count, batch, size = rows.shape
        noisy = rows.double().view(count, batch * size)
        source.add(Purpose.ROW_NOISE, addresses, noisy, self.row_std)
        noisy = noisy.view(count, batch, size)
        rows.copy_(noisy)
        return whole_cells(noisy, self.row_std).sum(dim=1).mul_(grid_width(self.row_std))

    def report(self, lengths: Tensor) -> Tensor | None:
        """The norms' reports `[K, width]`, still without noise; None in rounds that report nothing."""
        return None if self.reporter is None else self.reporter.report(lengths, self.bound)

    def add_to_reports(self, reports: Tensor, *, source: NoiseSource, addresses: Sequence[Address]) -> None:
        """Noise on reports `[K, width]`, or on their sum with one address, in place."""
        assert self.reporter is not None
        source.add(Purpose.REPORT_NOISE, addresses, reports, self.reporter.std)


def whole_cells(noisy: Tensor, std: float) -> Tensor:
    """The integers behind values `noisy` that were noised in double precision."""
    return (noisy / grid_width(std)).round_()
