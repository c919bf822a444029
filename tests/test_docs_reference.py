"""The pages that are generated from the code say what the code says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = runpy.run_path(str(ROOT / "docs/site/reference_pages.py"))["PAGES"]


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    """If not: python docs/site/reference_pages.py"""
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == PAGES[name]()
