"""A caveat counts by its kind: whatever its text says, an ε that does not hold is marked wherever it is printed."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from page_facts import Page, audit, guarantee, guarantees, make_run

import fedveil.report
from fedveil.core.guarantee import Caveat, CaveatKind
from fedveil.core.types import Unit, View
from fedveil.report.model.audit_sentences import audit_sentences
from fedveil.report.model.run_facts import Options, Run
from fedveil.report.page.guarantee_sentences import promise_sentences
from fedveil.report.page.html_page import page_html
from fedveil.report.terminal.guarantee_lines import table_lines
from fedveil.report.terminal.run_tables import comparison_table

LEAK = Caveat(CaveatKind.LEAKED_BOUND, "other words")
SEED = Caveat(CaveatKind.SEEDED, "a number was given")


def shown(*runs: Run) -> str:
    return page_html(runs, Options(), made="today", version="0.1.0")


@pytest.mark.parametrize(("caveat", "mark"), [(LEAK, "not private as it stands"), (SEED, "not private: seeded")])
def test_the_page_marks_a_cell_by_the_kind_of_its_caveat(caveat: Caveat, mark: str) -> None:
    marked = guarantees(1.5, math.inf, caveat)
    html = shown(make_run(spent=marked))
    assert "a guess is right" not in html
    assert html.count(f'<span class="odds">{mark}</span>') == len(View)
    assert all(sentence.endswith(f"; {mark}.") for sentence in promise_sentences(marked[: len(View)]))
    (row,) = [row for row in Page(shown(make_run(name="one", spent=marked), make_run())).rows if row[0] == "one"]
    assert row[5:7] == ["1.5 (NOT private)"] * 2


def test_the_page_warns_first_of_a_bound_that_is_read_from_the_data() -> None:
    text = Page(shown(make_run(spent=guarantees(1.5, math.inf, LEAK)))).text
    assert text.index("not private as it stands") < text.index("Not private other words.") < text.index("The verdict")


def test_a_text_alone_makes_no_mark() -> None:
    harmless = Caveat(
        CaveatKind.CONDITION, "NOT private as it stands; not private: seeded; speaks of one client's copy"
    )
    html = shown(make_run(spent=guarantees(1.5, math.inf, harmless)))
    assert "a guess is right" in html
    assert "The same record is held by several clients" not in html


def test_a_line_has_right_behind_its_number_that_it_is_void() -> None:
    lines = table_lines("spent", [guarantee(Unit.RECORD, View.SERVER, 1.5, LEAK), *guarantees(2.0)])
    assert lines[1].split() == ["record", "×", "server", "1.5", "NOT", "private", "1"]
    assert "  1 other words" in lines


def test_a_table_marks_what_its_row_calls_void() -> None:
    values = {"promised": 1.5, "spent": 1.5, "relation": "add-or-remove"}
    row = {
        "method": "m", "figure": "accuracy", "unit": "", "accuracy": None, "epsilon": {"record × server": values},
        "claimed": [], "seconds": None, "void": True, "caveats": ["other words"],
    }  # fmt: skip
    assert comparison_table([row])[1][0][4] == "1.5 (NOT private)"
    assert comparison_table([row | {"void": False, "caveats": ["NOT private as it stands"]}])[1][0][4] == "1.5"


@pytest.mark.parametrize("kind", CaveatKind)
def test_an_audit_repeats_a_leak_by_its_kind(kind: CaveatKind) -> None:
    details = {"reason": "", "caveats": [{"kind": str(kind), "text": "other words"}]}
    _, sentence = audit_sentences(audit(details=details))
    assert sentence.endswith(" But it is other words.") == (kind is CaveatKind.LEAKED_BOUND)


TEXT_COMPARED = re.compile(
    r"caveats?(\.text)?\.(startswith|endswith|find|index|removeprefix|partition|split)\("
    r"|\bin\s+[\w.]*\.text\b|\.text\s*(==|!=|\bin\b|\bnot in\b)|(==|!=)\s*[\w.]+\.text\b"
    r"|\bre\.\w+\(|core\.words"
)


def test_no_module_of_the_report_compares_the_text_of_a_caveat() -> None:
    (where,) = fedveil.report.__path__
    sources = sorted(Path(where).rglob("*.py"))
    assert len(sources) > 20
    for source in sources:
        for number, line in enumerate(source.read_text().splitlines(), 1):
            assert not TEXT_COMPARED.search(line), f"{source.name}:{number}: {line.strip()}"


@pytest.mark.parametrize(
    "line",
    [
        "if caveat.startswith(LEAKED):",
        "if caveat.text.startswith(LEAKED):",
        'leaks = "NOT private" in caveat.text',
        "if SEEDED.text == caveat.text:",
        'seeded = caveat.text == "seeded"',
        "from fedveil.core.words import LEAKED",
    ],
)
def test_the_scan_would_see_it(line: str) -> None:
    assert TEXT_COMPARED.search(line)
