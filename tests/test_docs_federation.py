"""What the pages on federations say is there: the tests that they name, and the numbers that they reckon with."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMING = ("federation-trust.md", "federation-operations.md")
DEFINED = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
}


@pytest.mark.parametrize("page", NAMING)
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    named = re.findall(r"`(test_\w+)`", (ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert len(named) > 10
    assert [name for name in named if name not in DEFINED] == []


@pytest.mark.parametrize("page", [*NAMING, "federation-scale.md", "federation.md", "tutorials/three-hospitals.md"])
def test_every_page_says_first_whom_it_is_for(page: str) -> None:
    second = (ROOT / "docs" / page).read_text(encoding="utf-8").split("\n\n")[1]
    assert second.startswith("*For who")


def test_the_reckoning_for_many_sites_begins_with_what_was_measured() -> None:
    """Within a factor of two: the measurements are of a busy machine, and the reasoning survives that much."""
    results = ROOT / "benchmarks" / "results"
    carried = json.loads((results / "federation.json").read_text())
    own = json.loads((results / "answers.json").read_text())
    few, many = carried["carried, 4 sites"], carried["carried, 24 sites"]
    measured = []
    for size in ("tiny", "4 MB"):
        measured.append(
            [
                (many[size]["round"] - few[size]["round"]) / 20,
                (many[size]["coordinator"] - few[size]["coordinator"]) / 20,
                own[size]["milliseconds"],
                own[size]["question"] + own[size]["answer"],
            ]
        )
    page = (ROOT / "docs" / "federation-scale.md").read_text(encoding="utf-8")
    first = page.split("| per further site |")[1].split("\n\n")[0]
    rows = [re.findall(r"\| ([\d.,]+)", line) for line in first.splitlines()[2:]]
    assert len(rows) == 4
    for row, numbers in zip(rows, zip(*measured, strict=True), strict=True):
        for stated, number in zip(row, numbers, strict=True):
            assert 0.5 <= float(stated.replace(",", "")) / number <= 2, (row, numbers)
