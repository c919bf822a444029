"""What a reader who knows nothing of the field must find on the first screen of a real run's report."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from fedveil.runs.run import run
from fedveil.studies.report import report

QUESTIONS = Path(__file__).parents[2] / "docs" / "report.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("reported")
    run("fed-cdp", {"data.name": "heart", "data.partition": "sites"}, rounds=3, out=folder / "run", workers=1)
    return report([folder / "run"], folder / "page.html").path.read_text(encoding="utf-8")


def text_of(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_five_questions_are_answered_by_sentences_of_the_first_screen(page: str) -> None:
    first = text_of(page.partition(">The verdict</h2>")[2].partition("</section>")[0])
    rows = re.findall(r"^\| \d\. .*? \| (.*) \|$", QUESTIONS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(rows) == 5
    for row in rows:
        quoted = re.findall(r'"([^"]+)"', row)
        assert quoted
        for sentence in quoted:
            for part in filter(None, (part.strip(" ;") for part in sentence.split("…"))):
                assert part in first, part


def test_sites_are_named_and_have_their_own_numbers(page: str) -> None:
    sites = text_of(page.partition(">Sites by name</h2>")[2].partition("</section>")[0])
    for name in ("cleveland", "hungarian", "switzerland", "va"):
        assert name in sites
    assert len(set(re.findall(r"at most (\d+\.\d)", sites))) > 1
