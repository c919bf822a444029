"""What a process remembers of noise and draws: enough to notice that they come back, or are not spread as they must be.

It never leaves the process.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from torch import Tensor

from fedveil.core.types import Sampling
from fedveil.engine.chance import MEASURED_DEVIATIONS, NO_CHANCE, as_declared
from fedveil.mechanisms.noise import grid_width

REMEMBERED = 1 << 18
"""Noises, and whose noise was counted, that are remembered at most; then the older half is forgotten."""

FEWEST_COORDINATES = 1000
"""With fewer, the shape of noise says nothing."""

REPORTS_BY_CHANCE = 3
"""Reports whose noise may come back: a report is one number or few."""


@dataclass
class NoiseMemory:
    """Noise and draws of one process, over rounds and clients."""

    fingerprints: dict[int, Hashable] = field(default_factory=dict)
    counted: dict[Hashable, None] = field(default_factory=dict)
    absolute: float = 0.0  # the sum of |noise|, in standard deviations
    coordinates: int = 0
    report_squares: float = 0.0  # in units of the declared variance
    reports: int = 0
    repeated_reports: int = 0
    batch_sums: float = 0.0  # of deviations from the expected batch size, in standard deviations
    batch_squares: float = 0.0
    batch_spread: float = 0.0  # the variance of a sum of squares
    batch_least: float = math.inf  # the smallest standard deviation of a batch's size
    batches: int = 0

    def returns(self, fingerprint: int, owner: Hashable) -> bool:
        """Whether this was seen before, with another owner (such as the step of a round of a client)."""
        return bool(self.returning([fingerprint], [owner]))

    def returning(self, fingerprints: Sequence[int], owners: Sequence[Hashable]) -> list[int]:
        """The same for many of them: the places of those that were seen before."""
        pairs = zip(fingerprints, owners, strict=True)
        if len(set(fingerprints)) == len(fingerprints) and self.fingerprints.keys().isdisjoint(fingerprints):
            self.fingerprints.update(pairs)  # nearly always, and several times as fast as one by one
            again = []
        else:
            remember = self.fingerprints.setdefault
            again = [place for place, (mark, owner) in enumerate(pairs) if remember(mark, owner) != owner]
        _forget_oldest(self.fingerprints)
        return again

    def not_counted(self, what: str, owners: Sequence[Hashable]) -> list[int]:
        """Which of the owners come for the first time: one may be computed twice, side by side or again."""
        new = []
        for k, owner in enumerate(owners):
            if (what, owner) not in self.counted:
                self.counted[what, owner] = None
                new.append(k)
        _forget_oldest(self.counted)
        return new

    def confirms_shape(self, noises: Tensor, coordinates: int, owners: Sequence[Hashable]) -> bool:
        """Whether noise has the shape of a Gaussian over all that was seen, not only its standard deviation.

        `noises` `[K]` are sums of |x| over so many coordinates each, in standard deviations. |x| of a standard Gaussian
        has the mean sqrt(2/π) and the variance 1 − 2/π.
        """
        new = self.not_counted("noise", owners)
        self.absolute += float(noises[new].sum())
        self.coordinates += len(new) * coordinates
        if self.coordinates < FEWEST_COORDINATES:
            return True
        room = MEASURED_DEVIATIONS * math.sqrt((1 - 2 / math.pi) / self.coordinates) + 1e-3
        return abs(self.absolute / self.coordinates - math.sqrt(2 / math.pi)) <= room

    def confirms_reports(self, noises: Tensor, std: float, owners: Sequence[Hashable]) -> bool:
        """Whether the noises `[K, width]` on reports are there, of their size over all that were seen, and new."""
        new = self.not_counted("report", owners)
        noises, owners = noises[new], [owners[k] for k in new]
        self.report_squares += float(noises.square().sum()) / std**2
        self.reports += noises.numel()
        for owner, cells in zip(owners, (noises / grid_width(std)).round().abs().tolist(), strict=True):
            self.repeated_reports += self.returns(hash(("report", *cells)), owner)
        allowed = max(REPORTS_BY_CHANCE, self.reports // (4 * noises.shape[1]))
        return (
            bool((noises != 0).all())
            and self.repeated_reports <= allowed
            and (not self.reports or as_declared(self.report_squares / self.reports, 1.0, self.reports))
        )

    def confirms_batches(
        self, positions: Tensor, counts: Tensor, kinds: Sequence[Sampling], owners: Sequence[Hashable]
    ) -> bool:
        """Whether batches are drawn as these kinds of sampling say.

        `positions` `[K, steps, slots]` are into each client's own records, `counts` `[K, steps]` the batches' sizes.
        They do not come back, in other steps or other rounds; sizes that are left to chance vary as they must.
        """
        good = True
        for k in self.not_counted("batches", owners):
            good &= self._confirms_draws(positions[k], kinds[k], owners[k])
            if kinds[k].kind == "poisson":
                self._count_sizes(counts[k].double(), kinds[k].records, kinds[k].batch / kinds[k].records)
            elif kinds[k].kind == "allocated":
                self._count_sizes(counts[k].double(), kinds[k].records, 1 / counts.shape[1])
        # Of few or small batches the tails are heavier than a Gaussian's: Bernstein's bound for the sum, Laurent and
        # Massart's for squares, with the length that a single size reaches by Bernstein's in place of a Gaussian's.
        bend = -NO_CHANCE / (3 * self.batch_least)
        single = (bend + math.sqrt(bend**2 - 2 * NO_CHANCE)) ** 2
        room = MEASURED_DEVIATIONS * math.sqrt(self.batch_spread) + 1e-9
        return (
            good
            and abs(self.batch_sums) <= MEASURED_DEVIATIONS * math.sqrt(self.batches) + bend + 1e-9
            and -room <= self.batch_squares <= room + single
        )

    def _confirms_draws(self, positions: Tensor, kind: Sampling, owner: Hashable) -> bool:
        steps = len(positions)
        chance = same_batch(kind, steps)
        again = int((positions[1:] == positions[:-1]).all(dim=-1).sum())
        if again * (chance + math.log(max(steps, 1))) <= NO_CHANCE:
            return False
        if steps * chance > NO_CHANCE:  # so few records that a round may well look like another
            return True
        return not self.returns(hash(("batches", positions.numpy().tobytes())), owner)

    def _count_sizes(self, sizes: Tensor, records: int, rate: float) -> None:
        variance = records * rate * (1 - rate)
        if variance <= 0:
            return
        deviations = (sizes - records * rate) / math.sqrt(variance)
        self.batch_sums += float(deviations.sum())
        self.batch_squares += float((deviations.square() - 1).sum())
        self.batch_spread += len(sizes) * (2 + 1 / variance)  # fourth moment of a binomial, from above
        self.batches += len(sizes)
        self.batch_least = min(self.batch_least, math.sqrt(variance))


def same_batch(kind: Sampling, steps: int) -> float:
    """The logarithm of the chance that two batches of a round are the same, where privacy rests on that."""
    if kind.kind == "allocated":  # only empty ones can be
        return kind.records * math.log(1 - 2 / steps) if steps > 2 else 0.0
    if kind.kind == "poisson":
        share = min(kind.batch / kind.records, 1.0)
        return kind.records * math.log(share**2 + (1 - share) ** 2)
    if kind.kind == "without-replacement":
        left = kind.records - kind.batch
        return math.lgamma(kind.batch + 1) + math.lgamma(left + 1) - math.lgamma(kind.records + 1)
    return 0.0


def _forget_oldest(memory: dict[Any, Any]) -> None:
    """Many at once: a dictionary walks over all that it has lost before it finds its first entry."""
    if len(memory) > REMEMBERED:
        for key in list(islice(memory, len(memory) - REMEMBERED // 2)):
            del memory[key]
