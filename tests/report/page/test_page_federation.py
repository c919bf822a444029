"""A site's report and the page of a status in a real browser: they ask for nothing and fit every screen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser import browser, chromium
from page_facts import Page, guarantees
from test_page_browser import LONG, OUTSIDE, OVERLAPPING, SMALL, SPILT, UNNAMED

from fedveil.core.atomic import write_whole
from fedveil.report.model.federation_facts import FederationFacts, ParticipantFacts
from fedveil.report.model.site_life import AnswerFacts, BudgetFacts, PlanAtSite, SiteLife
from fedveil.report.model.status_facts import StatusFacts
from fedveil.report.model.verdict_sentence import risk_of_cell
from fedveil.report.page import status_page
from fedveil.report.page.federation_section import federation_section
from fedveil.report.page.site_page import MOST_ANSWERS_LISTED, site_page_html
from fedveil.report.page.status_page import status_page_html

FACTS = StatusFacts(
    role="Coordinator",
    name="hearts 6bcb79974513",
    state=("warn", "missing: va"),
    facts=(("Rounds published", "3 of 15"), ("Accuracy", "0.7412 on public records")),
    share=0.2,
    caption="Sites; ε spent under this plan, of record × server at δ = 0.001",
    headings=("site", "records", "answers", "missed", "last round", "last heard", "ε"),
    rows=(("cleveland", "202", "3", "0", "3", "1 s ago", "0.1104"), ("va", "86", "1", "2", "3", "61 s ago", "0.32")),
    notes=("va: silent: no answer within 120 seconds",),
)


BUDGET = BudgetFacts(8.0, 1e-5, 1.25, 6.75)


def life(**changes: Any) -> SiteLife:
    """A site that has answered under one plan."""
    plan = PlanAtSite(
        name="hearts", hash="6b" * 32, agreed="2026-11-18T05:21:43+00:00", withdrawn=None,
        training="fed-cdp-batch, mlp of 32 parameters", coordinator="7d" * 32, others=("va", "hungarian"), planned=15,
        asked=3, paid=3, sent=2, size=1200, budget=BUDGET,
    )  # fmt: skip
    answers = tuple(
        AnswerFacts("hearts", round, plan.agreed, f"{round:02x}" * 32, 600, "example: 2 × …") for round in range(2)
    )
    cells = guarantees(1.25)
    made = SiteLife(
        name="north", records=60, key="d4" * 32, cell="record × server", lifetime=BUDGET, rehearsal=False,
        plans=(plan,), answers=(*answers, replace(answers[0], digest=None, size=None)), guarantees=cells,
        risks=tuple(map(risk_of_cell, cells)), course=((1.0, 0.5), (2.0, 0.9), (3.0, 1.25)),
        refused={"over-budget": 2}, ledger="ledger: 9 entries, head fea8a437836d66b1", receipts="north.receipts.json",
    )  # fmt: skip
    return replace(made, **changes)


def shown(facts: SiteLife) -> str:
    return site_page_html(facts, made="today", version="0.2.0")


def test_a_site_reads_what_was_asked_paid_sent_and_left() -> None:
    text = Page(shown(life())).text
    for part in (
        "Asked: 3 rounds under 1 plan. Refused: 2 over-budget.",
        "Paid: 3 answers; together ε = 1.25 of record × server",
        "Sent: 2 answers, 1,200 bytes in all.",
        "Left, for ever: ε = 6.75 of 8.",
        "Paid for and not sent: 1.",
        "fedveil site check north.receipts.json",
    ):
        assert part in text, part


def test_sizes_that_an_older_ledger_did_not_keep_are_not_made_up() -> None:
    answers = tuple(replace(answer, size=None) for answer in life().answers)
    assert "bytes in all" not in Page(shown(life(answers=answers))).text


def test_many_answers_are_counted_and_the_last_are_listed() -> None:
    answers = life().answers[:1] * (MOST_ANSWERS_LISTED + 5)
    page = Page(shown(life(answers=answers)))
    assert f"The last {MOST_ANSWERS_LISTED} of {MOST_ANSWERS_LISTED + 5}" in page.text
    assert sum(row[0].endswith("…") and len(row) == 5 for row in page.rows) == MOST_ANSWERS_LISTED


def test_a_federation_names_who_was_missing_and_in_which_rounds() -> None:
    sites = (
        ParticipantFacts("north", 60, 5, (), "", 1.5),
        ParticipantFacts("south", 40, 2, (1, 3, 4), "silent: no answer within 30 seconds", 2.5),
    )
    facts = FederationFacts("hearts", "6b" * 32, "7d" * 32, 30.0, 1, sites, 1e-3)
    rows = {row[0]: row for row in Page(federation_section(facts)).rows}
    assert rows["north"][2:] == ["5", "none", "none", "1.5"]
    assert rows["south"][2:] == ["2", "2, 4, 5", "silent: no answer within 30 seconds", "2.5"]


def written(facts: StatusFacts, path: Path) -> Path:
    write_whole(path, status_page_html(facts, made="today", version="0.2.0").encode())
    return path


def test_whatever_a_site_says_stays_text() -> None:
    page = status_page_html(replace(FACTS, notes=("<script>alert(1)</script>",)), made="today", version="0.2.0")
    assert "<script" not in page
    assert "alert(1)" in Page(page).text


@pytest.mark.skipif(chromium() is None, reason="Chromium is not here: apt-get install chromium")
def test_pages_refresh_themselves_where_they_should_and_fit_every_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_page, "REFRESH", 1)
    path = written(FACTS, tmp_path / "status.html")
    sites = [life(), life(name=LONG, rehearsal=True, plans=life().plans * 3), life(answers=(), plans=(), course=())]
    with browser(tmp_path / "profile") as tab:
        for number, facts in enumerate(sites):
            page = tmp_path / f"site-{number}.html"
            page.write_text(shown(facts), encoding="utf-8")
            for width, dark in ((390, True), (1280, False)):
                tab.visit(page, width=width, dark=dark)
                assert tab.evaluate("document.documentElement.scrollWidth") <= width
                for problem in (OUTSIDE, SPILT, SMALL, OVERLAPPING):
                    assert tab.evaluate(problem) == []
                assert tab.evaluate(UNNAMED) == 0
        assert {*tab.requests} == {(tmp_path / f"site-{number}.html").as_uri() for number in range(3)}
        tab.requests.clear()
        for width in (390, 1280):
            for dark in (False, True):
                tab.visit(path, width=width, dark=dark)
                assert tab.evaluate("document.documentElement.scrollWidth") <= width
                assert (tab.evaluate(OUTSIDE), tab.evaluate(SPILT)) == ([], [])
        assert "3 of 15" in tab.evaluate("document.body.innerText")
        later = replace(FACTS, state=("good", "finished"), facts=(("Rounds published", "15 of 15"),), over=True)
        written(later, path)
        tab.wait_for_load()
        assert "15 of 15" in tab.evaluate("document.body.innerText")
        assert {*tab.requests} == {path.as_uri()}
        assert tab.complaints == []
    assert "refresh" not in path.read_text(encoding="utf-8").split("</head>")[0]
