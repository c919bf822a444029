"""The table of methods in the documents is the one that the methods themselves give."""

from __future__ import annotations

from pathlib import Path

from fedveil.federation.federable import federable_rows, federable_table
from fedveil.zoo import ZOO

PAGE = Path(__file__).parents[2] / "docs" / "federation.md"


def test_the_page_has_the_table_of_the_methods_as_they_are() -> None:
    assert federable_table() in PAGE.read_text(encoding="utf-8")


def test_every_method_has_a_row() -> None:
    rows = {name: (can, asks) for name, can, asks in federable_rows()}
    assert rows.keys() == ZOO.keys()
    assert rows["prifedsync"][0].startswith("no")
    assert "refused" in rows["fed-sdp"][1]
    assert "server" in rows["fed-cdp"][1]
    assert "rehearsal" in rows["fedavg"][1]
