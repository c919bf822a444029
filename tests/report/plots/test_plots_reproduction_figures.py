"""Pictures of the papers' tables beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

from fedveil.report.plots.reproduction_figures import draw_montage, draw_quantities, draw_shares, draw_table


def cell(row: str, column: str, paper: float | None, ours: float | None) -> dict[str, Any]:
    return {"row": row, "column": column, "paper": paper, "ours": ours, "deviation": None}


ROWS = [cell("a", "K=1", 0.95, 0.6781), cell("a", "K=2", 0.96, 0.9581), cell("b", "K=1", None, 0.01)]


def test_pictures_are_written(tmp_path: Path) -> None:
    line = {"name": "a", "panel": "accuracy", "rounds": [1, 2], "values": [0.1, 0.5], "deviation": [0.0, 0.1]}
    draw_table(tmp_path / "table.png", "title", "accuracy", ROWS, ordered=True, logarithmic=False)
    draw_quantities(tmp_path / "courses.png", "title", [line, {**line, "panel": "loss", "name": "b"}])
    draw_shares(tmp_path / "shares.png", "title", [[0.5, 0.5], [1.0, 0.0]], ["cat", "dog"])
    pictures = [("one", tmp_path / "table.png"), ("two", tmp_path / "shares.png"), ("gone", tmp_path / "gone.png")]
    draw_montage(tmp_path / "montage.png", "title", pictures, 2)
    sizes = [imread(picture).shape[:2] for _, picture in pictures[:2]]
    assert imread(tmp_path / "montage.png").shape[1] == sizes[0][1] + sizes[1][1]
    assert imread(tmp_path / "montage.png").shape[0] < max(height for height, _ in sizes) + 200
    for name in ("table", "courses", "shares", "montage"):
        assert imread(tmp_path / f"{name}.png").std() > 0


@pytest.mark.parametrize(("ordered", "dash"), [(True, "-"), (False, "None")])
def test_points_are_joined_where_the_caller_says_that_columns_have_an_order(
    tmp_path: Path, ordered: bool, dash: str
) -> None:
    figure = draw_table(tmp_path / "table.png", "title", "time", ROWS, ordered=ordered, logarithmic=True)
    (axes,) = figure.axes
    assert axes.containers[0][0].get_linestyle() == dash
    assert axes.get_yscale() == "log"
    linear = draw_table(tmp_path / "table.png", "title", "accuracy", ROWS, ordered=ordered, logarithmic=False)
    assert linear.axes[0].get_yscale() == "linear"


def test_what_is_not_over_rounds_says_over_what(tmp_path: Path) -> None:
    line = {"name": "a", "panel": "accuracy", "rounds": [1, 2], "values": [0.1, 0.5], "deviation": [0.0, 0.1]}
    assert draw_quantities(tmp_path / "a.png", "t", [line]).axes[0].get_xlabel() == "rounds"
    assert draw_quantities(tmp_path / "a.png", "t", [line], across="share").axes[0].get_xlabel() == "share"
