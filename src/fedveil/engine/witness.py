"""What a client sees of its own noise, on the tensors. Only pass or fail leaves it: no size, norm or digest.

A value measured on the noise, held beside the noisy update, would help to test for a record. So everything is compared
here, with what was declared, and remembered in this process only (`noise_memory.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import torch
from torch import Tensor, nn

from fedveil.core.norms import lengths
from fedveil.core.parameters import Layout
from fedveil.engine.chance import all_as_declared, as_declared, shares_as_declared
from fedveil.engine.noise_memory import NoiseMemory
from fedveil.mechanisms.noise import grid_width

MEASURED_COORDINATES, MEASURED_STEPS = 20_000, 16
"""How many noise coordinates of a round are measured, and in at most how many of its steps."""

LENGTHS_MEASURED = 4
"""Of so many steps that are measured, in one the lengths of whole sums are."""

LOOKED_AT = 60
"""Coordinates that are looked at in every step, at equal distances: noise that is repeated after a half, a third, a
quarter or a fifth of the vector shows."""

STEPS_READ_TOGETHER = 64
"""Steps whose points are read at once."""

LAYERS_LOOKED_AT, OF_EACH_LAYER = 8, 8
"""And the first ones of the first layers: noise that begins anew with every layer shows."""

PARTS = 4
"""Pieces of a layer whose noise is measured by itself."""

FEWEST_POINTS = 12
"""With fewer, two independent noises could look alike: a point tells them apart with 5 bits."""

MARKS = 24
"""At least so many of the points, where there are as many, make a noise's fingerprint."""

SAME, MOST_SAME, _NEAR = 2.0**-18, 5, 64.0
"""In standard deviations: what counts as the same noise; how often two of the points may have it by chance (more often
with a probability of 2e-12); and how large a sum may be whose rounding to single precision does not blur that."""

_MIXERS = torch.tensor(
    [pow(0x9E3779B97F4A7C15, k, 1 << 64) - (1 << 63) | 1 for k in range(1, 1 + LOOKED_AT)], device="cpu"
)
"""Odd numbers of 64 bits, one for each word of a fingerprint."""

NEAR_ZERO = 2.0**20
"""In cells: what is closer to 0 shows in single precision, too, whether it lies on the grid."""


@dataclass(frozen=True)
class Glimpse:
    """Some coordinates of K clients' sums before their noise; many of them in some steps, a few in all."""

    some: slice | None
    values: Tensor | None  # [K, width]
    points: Tensor  # [K, points]


@dataclass
class _Measured:
    """What was measured on the noise of K clients, over the steps so far, in declared standard deviations."""

    good: Tensor  # [K]
    absolute: Tensor  # [K]: the sum of |noise|
    squares: Tensor  # [K, parts]
    point_squares: Tensor  # [K, points]

    @staticmethod
    def nothing(sums: Tensor, parts: int, points: int) -> _Measured:
        """Of the noise that is about to be added to sums `[K, P]`."""
        clients = len(sums)
        zeros = (sums.new_zeros(clients, *shape, dtype=torch.float64) for shape in ((), (parts,), (points,)))
        return _Measured(sums.new_ones(clients, dtype=torch.bool), *zeros)


class Witness:
    """Watches one mechanism at work for one round, on K clients side by side.

    Confirmed is noise of the declared size in every step, in every part of every layer and at every point that is
    looked at; of the shape of a Gaussian; on its grid; added to numbers that are finite; and that has not been seen
    before: not here, not at other points, not with the other sign. `kept` has the noisy sums of every step where they
    are looked at, for whoever checks what becomes of them.
    """

    def __init__(self, layout: Layout, std: float, *, round: int, steps: int, memory: NoiseMemory) -> None:
        self._round, self._memory = round, memory
        self._grid, self._unit, self._declared = grid_width(std), std or 1.0, 1.0 if std > 0 else 0.0
        self._size = layout.size
        thorough = min(max(steps, 1), MEASURED_STEPS)
        self._every = -(-max(steps, 1) // thorough)
        self._width = min(-(-MEASURED_COORDINATES // thorough), self._size)
        self._begins, self._places = _parts(layout), looked_at(layout)
        self._counts = [0] * len(self._begins)
        self._measured: _Measured | None = None
        self._fingerprints: list[int] = []  # step after step, those of the K
        self._unread: list[Tensor] = []  # points before their noise, of the last steps
        self.kept: list[Tensor] = []  # [K, points] for each step
        self.steps = 0

    @property
    def measures(self) -> bool:
        """Whether the step that comes is one of those that are measured thoroughly."""
        return self.steps % self._every == 0

    @property
    def measures_lengths(self) -> bool:
        """Whether the lengths of whole sums are measured, too: in some of these steps, since it is a pass over all."""
        return self.steps % (self._every * LENGTHS_MEASURED) == 0

    def before(self, sums: Tensor) -> Glimpse:
        """Look at sums `[K, P]` that are about to be noised. What is measured changes from step to step and round."""
        points = sums.index_select(1, self._places)
        if not self.measures:
            return Glimpse(None, None, points)
        number = self._round * MEASURED_COORDINATES + self.steps // self._every * self._width
        first = number % (self._size - self._width + 1)
        some = slice(first, first + self._width)
        return Glimpse(some, sums[:, some].clone(), points)

    def after(self, seen: Glimpse, sums: Tensor, grid: float | None = None) -> None:
        """Look at the same sums with their noise; `grid` is that of the noise, where it was not drawn on the sum."""
        self.kept.append(sums.index_select(1, self._places))
        self._unread.append(seen.points)
        self._grid = grid or self._grid
        if self._measured is None:
            self._measured = _Measured.nothing(sums, len(self._counts), len(self._places))
        if seen.some is not None and seen.values is not None:
            self._measure(self._measured, seen.values, sums[:, seen.some], self._sizes(seen.some))
        self.steps += 1
        if len(self._unread) == STEPS_READ_TOGETHER:
            self._read_points(self._measured)

    def _sizes(self, some: slice) -> list[int]:
        """How many of these coordinates are in each part."""
        ends = [*self._begins[1:], self._size]
        pairs = zip(self._begins, ends, strict=True)
        return [max(min(end, some.stop) - max(begin, some.start), 0) for begin, end in pairs]

    def _measure(self, measured: _Measured, before: Tensor, released: Tensor, sizes: list[int]) -> None:
        """Measure the noise between two looks `[K, width]` at the same coordinates of a step, so many in each part.

        In the sums' own precision: adding up squares so errs by far less than chance may (`chance.py`).
        """
        noise = (released - before).div_(self._unit)
        if self.steps == 0 and self._declared:
            measured.good &= _on_grid(released, self._grid)
        measured.absolute += torch.linalg.vector_norm(noise, ord=1, dim=-1)
        squares = noise.square_()
        measured.good &= self._is_sized(squares)
        measured.squares += torch.stack([part.sum(dim=-1) for part in torch.split(squares, sizes, dim=-1)], dim=-1)
        self._counts = [before + more for before, more in zip(self._counts, sizes, strict=True)]

    def _read_points(self, measured: _Measured) -> None:
        """Look at the points of the last steps, all at once: many small operations would cost more than the noise."""
        steps = len(self._unread)
        if not steps:
            return
        released = torch.stack(self.kept[-steps:])  # [steps, K, points]
        points = (released - torch.stack(self._unread)) / self._unit
        self._unread = []
        squares = points.square()
        measured.point_squares += squares.sum(dim=0)
        measured.good &= self._is_sized(squares).all(dim=0)
        if not self._declared:
            return
        measured.good &= _on_grid(released, self._grid).all(dim=0)
        if points.shape[-1] >= FEWEST_POINTS:
            if steps == self.steps:
                measured.good &= _all_different(points[0], self.kept[0] / self._unit)
            self._fingerprints += _fingerprints(points.flatten(0, 1))

    def _is_sized(self, squares: Tensor) -> Tensor:
        """Whether squares `[..., n]` of noise have the declared mean, and are numbers at all."""
        mean, (least, most) = squares.mean(dim=-1), shares_as_declared(squares.shape[-1])
        return (mean > 0) & (least <= mean) & (mean <= most) if self._declared else mean == 0

    def confirmed(self, owners: Sequence[Hashable]) -> list[bool]:
        """Whether all was as declared, for each of the K whose noise it was."""
        measured = self._measured
        if measured is None:
            return [True] * len(owners)  # no step at all
        self._read_points(measured)
        at_points = measured.point_squares / self.steps
        good = measured.good & all_as_declared(at_points, self._declared, self.steps)
        good &= all_as_declared(at_points.mean(dim=1, keepdim=True), self._declared, self.steps * len(self._places))
        for part, count in enumerate(self._counts):
            if count:
                good &= all_as_declared(measured.squares[:, part : part + 1] / count, self._declared, count)
        fine = good.tolist()
        mine = list(product([self._round], range(len(self._fingerprints) // len(owners)), owners))
        for number in self._memory.returning(self._fingerprints, mine):
            fine[number % len(owners)] = False
        if self._declared:
            sound = [k for k in range(len(owners)) if fine[k]]  # noise that is missing says nothing of its shape
            theirs = [(owners[k], self._round) for k in sound]
            if not self._memory.confirms_shape(measured.absolute[sound], sum(self._counts), theirs):
                return [False] * len(owners)
        return fine


def rows_confirmed(before: Tensor, rows: Tensor, sums: Tensor, std: float, places: Tensor) -> bool:
    """Whether each of the rows `[K, B, P]` carries noise of its own, of the declared size, and `sums` add them up."""
    size, batch = rows.shape[-1], rows.shape[1]
    squares = (lengths(rows - before).double().square() / size).flatten().tolist()
    points = rows[..., places].double()
    near = (points.sum(dim=1) - sums[:, places]).abs() <= 1e-6 * points.abs().sum(dim=1)
    good = bool(near.all()) and all(as_declared(mean, std, size) for mean in squares)
    if not good or std == 0 or len(places) < FEWEST_POINTS:
        return good
    marks = _fingerprints(((points - before[..., places]) / std).flatten(0, 1))
    return all(len(set(marks[first : first + batch])) == batch for first in range(0, len(marks), batch))


def within_bound(norms: Tensor, factors: Tensor, sensitivity: float) -> bool:
    """Whether rows with norms `[..., M]` of their layers, multiplied with their factors, are not longer than that."""
    after = torch.where(factors > 0, norms * factors, norms.new_zeros(())).double()
    return bool((after.square().sum(dim=-1) <= (sensitivity * (1 + 1e-6)) ** 2).all())


def _fingerprints(points: Tensor) -> list[int]:
    """Of noise `[K, points]` in standard deviations; the same for a noise and its opposite.

    Some of the points are enough: noise that comes back does so at these, too.
    """
    some = points[:, :: max(points.shape[1] // MARKS, 1)]
    marks = (some * 16).round_().clamp_(-127, 127).to(torch.int8)
    lead = marks.gather(1, (marks != 0).to(torch.int8).argmax(dim=1, keepdim=True))
    words = nn.functional.pad(torch.where(lead < 0, -marks, marks), (0, -marks.shape[1] % 8)).view(torch.int64).cpu()
    return (words * _MIXERS[: words.shape[1]]).sum(dim=1).tolist()  # whole numbers: what does not fit falls off


def _all_different(points: Tensor, released: Tensor) -> Tensor:
    """Whether the noise `[K, points]` of a step, in standard deviations, is another one at every point."""
    ordered = points.abs().sort(dim=1).values
    same = (ordered[:, 1:] - ordered[:, :-1] < SAME).sum(dim=1)
    return (same <= MOST_SAME) | (released.abs() > _NEAR).any(dim=1)


def _on_grid(released: Tensor, grid: float) -> Tensor:
    """Whether values `[..., n]` lie on the grid of their noise, as far as they are small enough to tell."""
    near = (~(released.abs() >= NEAR_ZERO * grid)).nonzero()  # a few of them; with what is not a number
    cells = released[near.unbind(dim=1)].double() / grid
    off = ~((cells - cells.round()).abs() < 0.1)
    good = torch.ones(released.shape[:-1], dtype=torch.bool, device=released.device)
    good[near[off, :-1].unbind(dim=1)] = False
    return good


def _parts(layout: Layout) -> list[int]:
    """Where the pieces of the layers begin; of a layer with fewer coordinates than pieces some are empty."""
    ends = [(part.start, part.stop) for part in layout.group_slices]
    return [a - (a - b) * piece // PARTS for a, b in ends for piece in range(PARTS)]


@lru_cache(maxsize=16)
def looked_at(layout: Layout) -> Tensor:
    """The coordinates that are looked at in every step."""
    count = min(LOOKED_AT, layout.size)
    places = {k * layout.size // count for k in range(count)}
    for part in layout.group_slices[:LAYERS_LOOKED_AT]:
        places.update(range(part.start, min(part.start + OF_EACH_LAYER, part.stop)))
    return torch.tensor(sorted(places), device="cpu")
