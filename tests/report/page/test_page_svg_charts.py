"""Places on a chart, for whatever numbers a run can produce."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_facts import Page

from fedveil.report.page.axis_scales import (
    AxisScale,
    evenly_chosen,
    finite_points,
    linear_scale,
    number_text,
    spread_scale,
)
from fedveil.report.page.svg_charts import Chart, Line, bar_chart, line_chart

ANY = st.floats(allow_nan=True, allow_infinity=True)
VALUES = st.lists(ANY, max_size=30)


@given(VALUES, st.booleans(), st.booleans())
def test_a_linear_scale_holds_every_drawable_value(values: list[float], zero: bool, whole: bool) -> None:
    scale = linear_scale(values, 200, 10, zero=zero, whole=whole)
    check(scale, values)
    if whole:
        assert all(tick == round(tick) for tick in scale.ticks)


@given(VALUES)
def test_a_spread_scale_holds_every_drawable_value(values: list[float]) -> None:
    check(spread_scale(values, 200, 10), values)


def check(scale: AxisScale, values: list[float]) -> None:
    low, high, ticks = scale.low, scale.high, scale.ticks
    assert math.isfinite(low)
    assert math.isfinite(high)
    assert low < high
    assert 2 <= len(ticks) <= 12
    assert list(ticks) == sorted(set(ticks))
    for value in values:
        if abs(value) < 1e150:
            assert 10 - 1e-6 <= scale(value) <= 200 + 1e-6
    known = [value for value in values if abs(value) < 1e150]
    if known:
        assert low <= min(known) + 1e-6 * (high - low)
        assert max(known) <= high + 1e-6 * (high - low)


@given(st.lists(st.floats(min_value=0.001, max_value=1e6), min_size=2, max_size=20))
def test_larger_values_stand_higher(values: list[float]) -> None:
    for scale in (linear_scale(values, 200, 10), spread_scale(values, 200, 10)):
        places = [scale(value) for value in sorted(values)]
        assert places == sorted(places, reverse=True)


@given(st.integers(0, 5000), st.integers(2, 50))
def test_chosen_places_are_few_and_hold_both_ends(count: int, most: int) -> None:
    places = evenly_chosen(count, most)
    assert len(places) <= most
    assert places == sorted(set(places))
    if count:
        assert places[0] == 0
        assert places[-1] == count - 1


@given(ANY)
def test_every_number_has_short_words(value: float) -> None:
    assert 0 < len(number_text(value)) <= 12


@given(st.lists(st.tuples(st.integers(0, 100).map(float), ANY), max_size=40), st.booleans(), ANY)
def test_every_chart_is_sound_html_with_places_inside_the_picture(
    points: list[tuple[float, float]], logarithmic: bool, limit: float
) -> None:
    chart = Chart(
        "c",
        "Title",
        "remark",
        "rounds",
        "value",
        (Line("one", points), Line("two", points[:1])),
        limit=(limit, "limit"),
        zero=True,
        logarithmic=logarithmic,
    )
    html = line_chart(chart)
    Page(html)
    assert not re.search(r'="-?(nan|inf)', html)
    if finite_points(points):
        assert 'role="img"' in html
        for x, y in re.findall(r'cx="(.*?)" cy="(.*?)"', html):
            assert 0 <= float(x) <= 440
            assert 0 <= float(y) <= 264
    else:
        assert "Nothing was measured" in html


@pytest.mark.parametrize("bars", [[("0", 0)], [("0", 5)], [(str(n), n * n) for n in range(12)], [("0–99", 10**7)]])
def test_bars_stand_on_zero(bars: list[tuple[str, int]]) -> None:
    html = bar_chart("b", "Title", "remark", "rounds", "clients", bars, "Clients")
    Page(html)
    for y, height in re.findall(r' y="([\d.]+)" width="[\d.]+" height="([\d.]+)"', html):
        assert float(y) + float(height) == pytest.approx(226, abs=0.02)
