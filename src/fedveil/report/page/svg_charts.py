"""Charts as inline SVG in the colours of the page, each with a name, a description and its numbers as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedveil.report.page.axis_scales import (
    AxisScale,
    ChartPoint,
    drawable,
    evenly_chosen,
    finite_points,
    linear_scale,
    number_text,
    spread_scale,
)
from fedveil.report.page.markup import Markup, details, join, paragraph, table, tag

WIDTH, HEIGHT = 440, 264
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 38
LINE_CLASSES = ("one", "two", "three", "four", "five")
DASH_ARRAYS = (None, "7 4", "2 4", "9 3 2 3", "12 4")
MOST_POINTS, MOST_DOTS, MOST_TABLE_ROWS = 300, 24, 25


@dataclass(frozen=True)
class Line:
    """One line of a chart: (rounds done, value), in order."""

    name: str
    points: Sequence[ChartPoint]


@dataclass(frozen=True)
class Chart:
    """What is drawn: `limit` is a level that must not be passed, with its label; `say` is how a value is written."""

    name: str
    title: str
    remark: str
    across: str
    up: str
    lines: tuple[Line, ...]
    limit: tuple[float, str] | None = None
    zero: bool = False
    logarithmic: bool = False
    say: Callable[[float], str] = number_text


def line_chart(chart: Chart) -> Markup:
    """A figure with legend and table; a sentence alone where there is nothing to draw."""
    lines = [(line, finite_points(line.points)) for line in chart.lines]
    drawn = [(line, points) for line, points in lines if points]
    if not drawn:
        caption = tag("figcaption", chart.title, tag("span", chart.remark, class_="small"))
        return tag("figure", caption, paragraph("Nothing was measured that could be drawn.", class_="muted"))
    values = [y for _, points in drawn for _, y in points]
    if chart.limit is not None and drawable(chart.limit[0]):
        values.append(chart.limit[0])
    across = linear_scale([x for _, points in drawn for x, _ in points], LEFT, WIDTH - RIGHT, whole=True)
    if chart.logarithmic:
        up = spread_scale(values, HEIGHT - BOTTOM, TOP)
    else:
        up = linear_scale(values, HEIGHT - BOTTOM, TOP, zero=chart.zero)
    remark = f"{chart.remark} The scale is logarithmic." if up.logarithmic else chart.remark
    caption = tag("figcaption", chart.title, tag("span", remark, class_="small"))
    marks = [_path(points, across, up, index, chart.say) for index, (_, points) in enumerate(drawn)]
    if chart.limit is not None and drawable(chart.limit[0]):
        marks.append(_limit(*chart.limit, up))
    picture = _svg(chart.name, chart.title, _description(chart, drawn), _axes(across, up, chart), *marks)
    legend = _legend([line.name for line, _ in drawn]) if len(drawn) > 1 else None
    return tag("figure", caption, picture, legend, _numbers(chart, [line for line, _ in lines]))


def bar_chart(
    name: str, title: str, remark: str, across: str, up: str, bars: Sequence[tuple[str, int]], what: str
) -> Markup:
    """One bar for each (label, count), zero based."""
    caption = tag("figcaption", title, tag("span", remark, class_="small"))
    scale = linear_scale([float(count) for _, count in bars], HEIGHT - BOTTOM, TOP, zero=True, whole=True)
    room = (WIDTH - LEFT - RIGHT) / max(len(bars), 1)
    width = min(room * 0.78, 70.0)
    shown = set(evenly_chosen(len(bars), 8 if max((len(label) for label, _ in bars), default=0) > 3 else 12))
    marks = []
    for index, (label, count) in enumerate(bars):
        middle, top = LEFT + room * (index + 0.5), scale(count)
        marks.append(
            tag("rect", x=middle - width / 2, y=top, width=width, height=HEIGHT - BOTTOM - top, class_="bar", rx=2)
        )
        if index in shown:
            marks.append(tag("text", label, x=middle, y=HEIGHT - BOTTOM + 16, text_anchor="middle"))
    counts = "; ".join(f"{label}: {count:,}" for label, count in bars)
    axes = join([*_levels(scale), _label_across(across), _label_up(up)])
    picture = _svg(name, title, f"{what}: {counts}.", axes, *marks)
    numbers = table(title, [across, up], [[label, f"{count:,}"] for label, count in bars], numbers=(0, 1), hidden=True)
    return tag("figure", caption, picture, details("The numbers", numbers))


def _svg(name: str, title: str, description: str, *children: Markup) -> Markup:
    return tag(
        "svg",
        tag("title", title, id=f"{name}-t"),
        tag("desc", description, id=f"{name}-d"),
        *children,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=title,
        aria_describedby=f"{name}-d",
        class_="chart",
    )


def _axes(across: AxisScale, up: AxisScale, chart: Chart) -> Markup:
    marks = _levels(up)
    shown = [tick for tick in across.ticks if tick == round(tick)]
    for tick in shown:
        x = across(tick)
        marks.append(tag("text", number_text(tick), x=x, y=HEIGHT - BOTTOM + 16, text_anchor="middle"))
    return join([*marks, _label_across(chart.across), _label_up(chart.up)])


def _levels(up: AxisScale) -> list[Markup]:
    marks = []
    for tick in up.ticks:
        y = up(tick)
        kind = "axis" if tick == up.ticks[0] else "grid"
        marks.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_=kind))
        marks.append(tag("text", number_text(tick), x=LEFT - 7, y=y + 4, text_anchor="end"))
    return marks


def _label_across(label: str) -> Markup:
    return tag("text", label, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 3, text_anchor="middle")


def _label_up(label: str) -> Markup:
    middle = (TOP + HEIGHT - BOTTOM) / 2
    return tag("text", label, x=11, y=middle, text_anchor="middle", transform=f"rotate(-90 11 {middle:g})", class_="up")


def _path(
    points: Sequence[ChartPoint], across: AxisScale, up: AxisScale, index: int, say: Callable[[float], str]
) -> Markup:
    kept = [points[place] for place in evenly_chosen(len(points), MOST_POINTS)]
    places = [(across(x), up(y)) for x, y in kept]
    colour = LINE_CLASSES[index % len(LINE_CLASSES)]
    dots = [
        tag("circle", tag("title", f"{number_text(x)}: {say(y)}"), cx=px, cy=py, r=3, class_="dot")
        for (x, y), (px, py) in zip(kept, places, strict=True)
    ]
    way = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    line = tag("path", d=way, class_="line", stroke_dasharray=DASH_ARRAYS[index % len(DASH_ARRAYS)])
    return tag("g", line, *(dots if len(dots) <= MOST_DOTS else []), class_=colour)


def _limit(value: float, label: str, up: AxisScale) -> Markup:
    y = up(value)
    above = y - 6 if y > TOP + 16 else y + 15
    return join(
        [
            tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="limit"),
            tag("text", label, x=WIDTH - RIGHT, y=above, text_anchor="end", class_="limit-text"),
        ]
    )


def _legend(names: Sequence[str]) -> Markup:
    items = []
    for index, name in enumerate(names):
        stroke = tag("path", d="M1 6H33", class_="line", stroke_dasharray=DASH_ARRAYS[index % len(DASH_ARRAYS)])
        swatch = tag(
            "svg", stroke, viewBox="0 0 34 12", aria_hidden="true", class_=LINE_CLASSES[index % len(LINE_CLASSES)]
        )
        items.append(tag("li", swatch, name))
    return tag("ul", *items, class_="legend")


def _description(chart: Chart, drawn: Sequence[tuple[Line, list[ChartPoint]]]) -> str:
    """A text for readers who can't see the chart: where each line begins and ends, and its extremes."""
    parts, say = [], chart.say
    for line, points in drawn:
        values = [y for _, y in points]
        first, last = points[0], points[-1]
        part = f"{line.name}: {say(first[1])} at {number_text(first[0])} {chart.across}"
        if len(points) > 1:
            part += f", {say(last[1])} at {number_text(last[0])}, least {say(min(values))}, most {say(max(values))}"
        parts.append(part)
    if chart.limit is not None:
        parts.append(chart.limit[1])
    return "; ".join(parts) + "."


def _numbers(chart: Chart, lines: Sequence[Line]) -> Markup:
    """The same as a table; of many rounds a few, evenly."""
    every = sorted({x for line in lines for x, _ in line.points if math.isfinite(x)})
    kept = [every[place] for place in evenly_chosen(len(every), MOST_TABLE_ROWS)]
    known = [dict(line.points) for line in lines]
    rows = [
        [
            number_text(x),
            *(chart.say(values[x]) if x in values and not math.isnan(values[x]) else "–" for values in known),
        ]
        for x in kept
    ]
    caption = chart.title if len(kept) == len(every) else f"{chart.title} ({len(kept)} of {len(every)} rounds)"
    headings = [chart.across, *(line.name for line in lines)]
    return details("The numbers", table(caption, headings, rows, numbers=range(len(headings)), hidden=True))
