"""How a site or a coordinator stands fits a terminal of 80 columns, whatever the names are."""

from __future__ import annotations

import pytest

from fedveil.report.model.status_facts import StatusFacts
from fedveil.report.terminal.status_screen import screen_lines


def facts(name: str = "north", rows: int = 3, note: str = "") -> StatusFacts:
    return StatusFacts(
        role="Coordinator",
        name=name,
        state=("warn", f"missing: {name}"),
        facts=(("Rounds", "3 of 10"), ("Accuracy", "0.9")),
        share=0.3,
        caption=f"Sites of {name}",
        headings=("site", "records", "answers", "missed", "last round", "last heard", "ε"),
        rows=tuple(
            (f"{name}-{row}", "1,000,000", "1,000", "0", "1,000", "24 min ago", "0.3409") for row in range(rows)
        ),
        notes=(note,) if note else (),
    )


@pytest.mark.parametrize("name", ["north", "a-hospital-with-a-very-long-name-of-sixty-three-characters-in-all"])
@pytest.mark.parametrize("width", [80, 72])
def test_no_line_is_longer_than_the_terminal(name: str, width: int) -> None:
    lines = screen_lines(facts(name, note=f"{name}: silent: no answer within 600 seconds; " * 3), width)
    assert max(map(len, lines)) <= width


def test_columns_stand_under_their_headings() -> None:
    heading, *rows = [line for line in screen_lines(facts()) if line.startswith(("site", "north-"))]
    assert len(rows) == 3
    assert {len(line) for line in (heading, *rows)} == {len(heading)}
    assert heading.endswith("ε")


def test_without_rows_there_is_no_table() -> None:
    assert not any("records" in line for line in screen_lines(facts(rows=0)))


def test_the_bar_shows_the_share() -> None:
    assert "[#########.....................] 30%" in screen_lines(facts())
