"""From numbers to places on a chart, for whatever a run can measure: nothing, one point, ∞, NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

ChartPoint = tuple[float, float]

LARGEST_DRAWN = 1e150
"""Beyond this a number is as good as infinite, and differences of such numbers would be."""


def drawable(value: float) -> bool:
    return abs(value) < LARGEST_DRAWN


def finite_points(points: Sequence[ChartPoint]) -> list[ChartPoint]:
    """What can be drawn."""
    return [(float(x), float(y)) for x, y in points if drawable(x) and drawable(y)]


@dataclass(frozen=True)
class AxisScale:
    """Values from `low` to `high` on places from `start` to `end`, with the values that are marked."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value; what lies outside stands at the edge."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            share = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def linear_scale(
    values: Sequence[float], start: float, end: float, *, zero: bool = False, whole: bool = False
) -> AxisScale:
    """Round numbers around the values; from 0 if `zero`; marks at whole numbers only if `whole`."""
    known = [value for value in values if drawable(value)] or [0.0, 1.0]
    low, high = min(known), max(known)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1 / LARGEST_DRAWN):
        room = 0.5 * abs(low) if abs(low) > 1 / LARGEST_DRAWN else 0.5
        low, high = (0.0, high + room) if zero and low >= 0 else (low - room, high + room)
    step = _step((high - low) / 5)
    if whole:
        step = max(1.0, float(round(step)))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    if last <= first:
        last = first + 1
    ticks = tuple(number * step for number in range(first, last + 1))
    return AxisScale(ticks[0], ticks[-1], start, end, ticks)


def spread_scale(values: Sequence[float], start: float, end: float) -> AxisScale:
    """Logarithmic where all values are positive and span more than a decade, else linear from 0."""
    known = [value for value in values if drawable(value)]
    if not known or min(known) < 1 / LARGEST_DRAWN or max(known) < 10 * min(known):
        return linear_scale(values, start, end, zero=True)
    first, last = math.floor(math.log10(min(known)) + 1e-9), math.ceil(math.log10(max(known)) - 1e-9)
    every = max(1, math.ceil((last - first) / 6))
    ticks = tuple(10.0**power for power in range(first, last + 1, every))
    return AxisScale(10.0**first, 10.0**last, start, end, ticks, logarithmic=True)


def _step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, not below `rough`."""
    power = 10.0 ** max(math.floor(math.log10(max(rough, 1e-300))), -300)
    return next((power * factor for factor in (1, 2, 5) if power * factor >= rough * (1 - 1e-9)), power * 10)


def number_text(value: float) -> str:
    """Short, without needless zeros; thousands are grouped."""
    if not math.isfinite(value):
        return "∞" if value > 0 else str(value)
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-4:
        return f"{value:.3g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def evenly_chosen(count: int, most: int) -> list[int]:
    """At most `most` of `count` places, evenly, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(index * (count - 1) / (most - 1)) for index in range(most)})
