"""Pictures show what they are given, in colours and scales that can be read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedveil.core.errors import FedveilError
from fedveil.report.plots.comparison import draw_comparison
from fedveil.report.plots.epsilon_curves import draw_epsilon_curves
from fedveil.report.plots.figures import line_style, spans_a_decade
from fedveil.report.plots.sweep_grid import draw_sweep
from fedveil.report.plots.tradeoff_curves import draw_tradeoffs
from fedveil.report.plots.training_panels import draw_training_panels


def curve(name: str, epsilon: list[float] | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "rounds": [1.0, 2.0, 3.0],
        "values": [0.5, 0.6, 0.7],
        "deviation": [0.0, 0.0, 0.0],
        "final": 0.7,
        "cell": None if epsilon is None else "record × server",
        "epsilon": epsilon or [],
        "epsilon_values": [0.5, 0.6, 0.7] if epsilon else [],
        "claimed": None,
        **changes,
    }


def row(accuracy: float | None, epsilon: float | str, deviation: float | None = 0.01, **point: Any) -> dict[str, Any]:
    cells = {"record × server": {"promised": epsilon, "spent": epsilon}}
    return {
        "point": point, "figure": "accuracy", "unit": "", "accuracy": accuracy, "deviation": deviation, "runs": 3,
        "delta": 1e-5, "epsilon": cells,
    }  # fmt: skip


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    return tmp_path / "picture.png"


def labels(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def panel(figure: Figure, title: str) -> Axes:
    return next(axes for axes in figure.axes if axes.get_title().startswith(title))


def test_a_method_without_a_guarantee_is_a_dashed_line_at_its_final_accuracy(picture: Path) -> None:
    figure = draw_comparison(picture, "t", [curve("plain"), curve("private", [0.5, 0.7, 0.9])], "1e-05")
    plain, private = figure.axes[1].lines
    assert plain.get_linestyle() == "--"
    assert set(plain.get_ydata()) == {0.7}
    assert list(private.get_xdata()) == [0.5, 0.7, 0.9]
    assert labels(figure) == ["plain: no guarantee (dashed on the right)", "private: ε of record × server"]


def test_a_claim_is_a_hollow_mark_at_the_final_accuracy(picture: Path) -> None:
    figure = draw_comparison(picture, "t", [curve("private", [0.5, 0.7, 0.9], claimed=0.2)], "1e-05")
    _, claim = figure.axes[1].lines
    assert (list(claim.get_xdata()), list(claim.get_ydata())) == ([0.2], [0.7])
    assert claim.get_markerfacecolor() == "none"
    assert "hollow" in labels(figure)[-1]


def test_epsilon_is_drawn_on_a_logarithmic_axis_when_it_spans_more_than_a_decade(picture: Path) -> None:
    assert draw_comparison(picture, "t", [curve("a", [0.5, 0.7, 0.9])], "1e-05").axes[1].get_xscale() == "linear"
    assert draw_comparison(picture, "t", [curve("a", [0.5, 0.7, 9.0])], "1e-05").axes[1].get_xscale() == "log"
    assert spans_a_decade([1, 10.1, math.inf])
    assert not spans_a_decade([1, 10])
    assert not spans_a_decade([0, 100])
    assert not spans_a_decade([])


def test_a_comparison_without_any_guarantee_or_with_failures_is_drawn(picture: Path) -> None:
    failed = curve("failed", rounds=[], values=[], deviation=[], final=None)
    figure = draw_comparison(picture, "t", [curve("plain"), failed], "1e-05")
    assert figure.axes[1].get_xlabel() == "no method here has a finite ε"
    assert len(labels(figure)) == 1
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_band_shows_the_deviation_and_stays_between_0_and_1(picture: Path) -> None:
    figure = draw_comparison(picture, "t", [curve("a", deviation=[0.1, 0.5, 0.1])], "1e-05")
    (band,) = figure.axes[0].collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.max() == 1.0
    assert heights.min() == pytest.approx(0.1)
    assert not draw_comparison(picture, "t", [curve("a")], "1e-05").axes[0].collections


def test_28_lines_can_be_told_apart() -> None:
    assert len({str(line_style(index)) for index in range(28)}) == 28


@pytest.mark.parametrize("methods", [1, 9, 28])
def test_the_legend_lies_outside_the_panels_and_inside_the_picture(picture: Path, methods: int) -> None:
    figure = draw_comparison(
        picture, "t", [curve(f"a-method-number-{i}", [1.0, 2.0, 3.0]) for i in range(methods)], "1e-05"
    )
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    legend = figure.legends[0].get_window_extent(renderer)
    assert legend.x0 >= 0
    assert legend.x1 <= figure.bbox.width
    assert all(axes.get_window_extent(renderer).y0 > legend.y1 for axes in figure.axes)
    assert all(axes.get_window_extent(renderer).height > 200 for axes in figure.axes)


def test_one_key_is_drawn_with_error_bars_on_a_scale_that_fits(picture: Path) -> None:
    rows = [row(0.9, 20.0, sigma=0.5), row(0.8, 2.0, sigma=2.0), row(0.7, 0.9, sigma=8.0)]
    left, right = draw_sweep(picture, "t", ["sigma"], rows, "record × server").axes
    assert (left.get_xscale(), right.get_yscale()) == ("log", "log")
    assert list(right.lines[0].get_ydata()) == [20.0, 2.0, 0.9]
    assert len(left.containers) == 1
    assert [tick.get_text() for tick in left.get_xticklabels()] == ["0.5", "2", "8"]
    near = draw_sweep(picture, "t", ["sigma"], [row(0.9, 2.0, sigma=1), row(0.8, 1.0, sigma=2)], "record × server")
    assert near.axes[0].get_xscale() == near.axes[1].get_yscale() == "linear"


def test_two_keys_make_one_line_per_value_of_the_second(picture: Path) -> None:
    rows = [row(0.9, 1.0 + b, sigma=a, bound=b) for a in (1, 2) for b in (3, 4, 5)]
    figure = draw_sweep(picture, "t", ["sigma", "bound"], rows, "record × server")
    assert labels(figure) == ["bound = 3", "bound = 4", "bound = 5"]
    assert len(figure.axes[0].containers) == len(figure.axes[1].lines) == 3


def test_an_epsilon_that_a_key_does_not_change_is_drawn_once_and_said(picture: Path) -> None:
    rows = [row(0.9, 1.0 / a, sigma=a, bound=b) for a in (1, 2) for b in (3, 4)]
    right = draw_sweep(picture, "t", ["sigma", "bound"], rows, "record × server").axes[1]
    assert len(right.lines) == 1
    assert right.get_title() == "the same for every bound"


def test_words_stand_side_by_side_and_infinite_values_are_named(picture: Path) -> None:
    rows = [row(0.9, "inf", None, method="a"), row(None, 2.0, None, method="b")]
    left, right = draw_sweep(picture, "t", ["method"], rows, "record × server").axes
    assert [tick.get_text() for tick in right.get_xticklabels()] == ["a", "b"]
    assert list(left.lines[0].get_xdata()) == [0.0]
    assert list(right.lines[0].get_xdata()) == [1.0]
    assert right.get_title() == "ε = ∞ at a"
    nowhere = draw_sweep(picture, "t", ["x"], [row(0.9, "inf", x=1), row(0.9, "inf", x=2)], "record × server")
    assert nowhere.axes[1].get_title() == "ε = ∞ everywhere"


def events(**keys: Any) -> list[dict[str, Any]]:
    return [{"round": round, **keys} for round in range(3)]


def test_only_panels_for_which_something_is_there_are_drawn(picture: Path) -> None:
    rounds = events(accuracy=0.5, train_loss=1.0, update_norm=2.0, bound=None, update_scale=None)
    figure = draw_training_panels(picture, "t", [{"name": "run", "rounds": rounds}])
    titles = [axes.get_title() for axes in figure.axes if axes.get_visible()]
    assert titles == ["Accuracy", "Training loss", "Size of the updates"]
    assert len(panel(figure, "Size").lines) == 1


def test_the_bound_is_drawn_beside_the_norms_and_the_variances_in_panels_of_their_own(picture: Path) -> None:
    rounds = events(update_norm=2.0, bound=4.0, between_client_variance=0.1, update_scale=0.2)
    figure = draw_training_panels(picture, "t", [{"name": "run", "rounds": rounds}])
    norm, bound = panel(figure, "Size").lines
    assert list(norm.get_xdata()) == [1.0, 2.0, 3.0]
    assert list(bound.get_ydata()) == [4.0, 4.0, 4.0]
    assert bound.get_linestyle() == "--"
    assert list(panel(figure, "Between-client").lines[0].get_ydata()) == [0.1] * 3
    assert list(panel(figure, "Update scale").lines[0].get_ydata()) == [0.2] * 3


def test_bytes_are_added_up_in_megabytes(picture: Path) -> None:
    figure = draw_training_panels(
        picture, "t", [{"name": "run", "rounds": events(upload_bytes=1_000_000, dense_bytes=2_000_000)}]
    )
    sent, dense = panel(figure, "Sent").lines
    assert list(sent.get_ydata()) == [1.0, 2.0, 3.0]
    assert list(dense.get_ydata()) == [2.0, 4.0, 6.0]


def test_runs_that_tell_nothing_are_refused(picture: Path) -> None:
    with pytest.raises(FedveilError, match="nothing in the events"):
        draw_training_panels(picture, "t", [{"name": "run", "rounds": events(accuracy=None)}])


def test_gaps_between_evaluations_are_joined(picture: Path) -> None:
    rounds = [{"round": 0, "accuracy": 0.1}, {"round": 1}, {"round": 2, "accuracy": 0.3}]
    figure = draw_training_panels(picture, "t", [{"name": "run", "rounds": rounds}])
    assert list(panel(figure, "Accuracy").lines[0].get_xdata()) == [1.0, 3.0]


def test_epsilon_over_rounds_names_what_is_infinite_below(picture: Path) -> None:
    figure = draw_epsilon_curves(picture, [1, 2], {"finite": [1.0, 2.0], "other": [math.inf] * 2}, "t")
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines] == ["finite"]
    assert [text.get_text() for text in axes.texts] == ["ε = ∞: other"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_tradeoffs_are_drawn_beside_the_line_of_telling_nothing(picture: Path) -> None:
    (axes,) = draw_tradeoffs(picture, "t", {"a": ([0.0, 1.0], [0.8, 0.0])}).axes
    assert [line.get_label() for line in axes.lines] == ["Id: nothing can be told", "a"]
    assert picture.read_bytes().startswith(b"\x89PNG")
