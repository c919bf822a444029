"""About how many rows a file has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedveil.data.row_estimates import estimated_rows


def test_lines_of_a_text_are_estimated_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "1,22\n" * 200_000)
    rows = estimated_rows(path)
    assert rows is not None
    assert rows == pytest.approx(200_001, rel=0.001)


def test_arrays_and_folders_are_counted(tmp_path: Path) -> None:
    np.save(tmp_path / "records.npy", np.zeros((7, 2)))
    assert estimated_rows(tmp_path / "records.npy") == 7
    assert estimated_rows(tmp_path) == 1


@pytest.mark.parametrize("name", ["missing.csv", "broken.npy", "broken.parquet", "one-line.csv"])
def test_nothing_is_said_of_what_tells_nothing(name: str, tmp_path: Path) -> None:
    if name != "missing.csv":
        (tmp_path / name).write_text("a,b")
    assert estimated_rows(tmp_path / name) is None
