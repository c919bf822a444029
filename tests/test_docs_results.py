"""Where the records of a page's runs are kept, the page is what they give."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from fedveil.data.fetching import available

RESULTS = Path(__file__).parent.parent / "docs/results"
RECORDED = [RESULTS / "paper/prifedsync-table-1-more-noise.md"]


def table(page: Path) -> list[str]:
    return [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]


@pytest.mark.parametrize("page", RECORDED, ids=lambda page: page.stem)
def test_a_page_is_what_the_records_of_its_runs_give(page: Path, tmp_path: Path, call: Any) -> None:
    if not available("mnist"):
        pytest.skip("MNIST is not here")
    shutil.copytree(RESULTS / "records", tmp_path / "records")
    (line,) = re.findall(r"^fedveil (reproduce .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    made = tmp_path / "page.md"
    code, _, errors = call(*shlex.split(line), "--no-training", "--out", str(tmp_path / "records"), "--page", str(made))
    assert (code, errors) == (0, "")
    assert table(made) == table(page)
    assert len(table(made)) > 2
