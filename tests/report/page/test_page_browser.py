"""The page in a real browser: it asks for nothing, complains of nothing, and fits every screen in light and dark."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from browser import browser, chromium
from page_facts import guarantees, make_run

from fedveil.report.model.run_facts import Options, Status
from fedveil.report.page.html_page import page_html

pytestmark = pytest.mark.skipif(chromium() is None, reason="Chromium is not here: apt-get install chromium")

LONG = "a-very-long-name-without-any-place-to-break-it-" * 4

OUTSIDE = """[...document.querySelectorAll('body *')].filter(element =>
    !element.closest('.scroll, pre, .skip, .hidden, thead, caption, svg') &&
    element.getBoundingClientRect().right > document.documentElement.clientWidth + 1
).map(element => element.outerHTML.slice(0, 100))"""

SMALL = """[...document.querySelectorAll('svg.chart text:not(.up), td, th, p, li')].filter(text => {
    const scale = text.ownerSVGElement ? text.ownerSVGElement.getBoundingClientRect().width / 440 : 1;
    return parseFloat(getComputedStyle(text).fontSize) * scale < 10;
}).map(text => text.textContent)"""

OVERLAPPING = """[...document.querySelectorAll('svg.chart')].flatMap(chart => {
    const boxes = [...chart.querySelectorAll('text')].filter(text => getComputedStyle(text).display !== 'none')
        .map(text => [text.textContent, text.getBoundingClientRect()]);
    return boxes.flatMap(([one, a], place) => boxes.slice(place + 1).filter(([_, b]) =>
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1).map(([two, _]) => `${one} / ${two}`));
})"""

SPILT = """[...document.querySelectorAll('td, th, dd, dt')].filter(cell => cell.clientWidth > 1 &&
    cell.scrollWidth > cell.clientWidth + 1 && getComputedStyle(cell).position !== 'absolute')
    .map(cell => cell.textContent.slice(0, 60))"""

UNNAMED = """[...document.querySelectorAll('svg[role=img], table, nav')].filter(element =>
    !(element.getAttribute('aria-label') || element.querySelector('caption'))).length"""


def test_no_request_no_complaint_and_no_sideways_scrolling_on_any_screen(tmp_path: Path) -> None:
    one = make_run()
    strange = make_run(
        name=LONG, data=LONG, seeded=True, status=Status("unfinished", 3, 8, 4), problems=(f"{LONG} is missing",)
    )
    nothing = make_run(
        promised=guarantees(math.inf), spent=guarantees(math.inf), epsilon_lines=(), attacks=(), audits=()
    )
    pages = {"one": [one], "several": [one, strange, nothing], "strange": [strange]}
    files = {}
    for name, runs in pages.items():
        files[name] = tmp_path / f"{name}.html"
        files[name].write_text(page_html(runs, Options(), made="today", version="0.1.0"), encoding="utf-8")
    released = tmp_path / "released.html"
    released.write_text(page_html([one], Options(release=True), made="today", version="0.1.0"), encoding="utf-8")
    with browser(tmp_path / "profile") as tab:
        for file in (*files.values(), released):
            for width, dark in ((360, False), (390, True), (768, False), (1280, True)):
                tab.visit(file, width=width, dark=dark)
                wide = tab.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, (file.name, width, tab.evaluate(OUTSIDE))
                assert tab.evaluate(OUTSIDE) == []
                ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
                assert ground == ("rgb(16, 21, 27)" if dark else "rgb(246, 247, 249)")
                assert tab.evaluate(SMALL) == []
                assert tab.evaluate(OVERLAPPING) == [], (file.name, width)
                assert tab.evaluate(SPILT) == [], (file.name, width)
            assert tab.evaluate(UNNAMED) == 0
        asked = {address.split(";")[0] for address in tab.requests}
        assert asked <= {"data:image/png", *(file.as_uri() for file in (*files.values(), released))}
        assert tab.complaints == []
        picture = tmp_path / "page.png"
        tab.picture(picture)
        assert picture.stat().st_size > 10_000


def test_the_verdict_is_on_the_first_screen_of_a_desk_and_of_a_phone(tmp_path: Path) -> None:
    file = tmp_path / "one.html"
    file.write_text(page_html([make_run()], Options(), made="today", version="0.1.0"), encoding="utf-8")
    with browser(tmp_path / "profile") as tab:
        for width, height in ((1280, 800), (390, 844)):
            tab.visit(file, width=width, height=height)
            assert tab.evaluate("document.querySelector('.verdict').getBoundingClientRect().bottom") < height
        tab.visit(file, width=1280, height=800)
        assert tab.evaluate("document.querySelector('.brief').getBoundingClientRect().bottom") < 800


def test_printed_it_is_black_on_white_and_nothing_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "one.html"
    file.write_text(page_html([make_run()], Options(), made="today", version="0.1.0"), encoding="utf-8")
    with browser(tmp_path / "profile") as tab:
        tab.visit(file, width=680, dark=True)  # as wide as paper is between its margins
        tab.call("Emulation.setEmulatedMedia", media="print")
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert tab.evaluate("getComputedStyle(document.body).color") == "rgb(26, 33, 41)"
        assert tab.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
        assert tab.evaluate("document.documentElement.scrollWidth") <= 680
        assert tab.evaluate(SPILT) == []


def test_what_a_page_would_load_or_complain_of_is_seen(tmp_path: Path) -> None:
    """The test above can fail: this page does everything that ours must not."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!doctype html><title>bad</title><img src='missing.png' alt=''><script>console.error('said')</script>"
        "<div style='width:2000px'>wide</div>"
    )
    with browser(tmp_path / "profile") as tab:
        tab.visit(bad, width=360)
        assert tab.evaluate(OUTSIDE)
    assert any(address.endswith("missing.png") for address in tab.requests)
    assert any("said" in complaint for complaint in tab.complaints)
