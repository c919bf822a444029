"""Scores on all records and on each site's, what is worst, and what is read back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fedveil.core.scores import FIGURES, ClassScores, NumberScores, Scores, SiteScores, main_figure
from fedveil.core.tasks import Classification, Regression

SICK, YEARS = Classification(("healthy", "sick")), Regression(0.0, 80.0, "years")
OVERALL = ClassScores(100, 0.82, 0.82, "healthy", 0.5, 0.625, 0.47, 0.1)
CLASSES = Scores(
    SICK,
    OVERALL,
    (
        SiteScores("north", replace(OVERALL, accuracy=0.9, auc=None, log_loss=0.3)),
        SiteScores("south", replace(OVERALL, accuracy=0.7, auc=0.6, log_loss=0.4)),
        SiteScores("west", replace(OVERALL, accuracy=0.8, auc=0.7, log_loss=0.9)),
    ),
)
NUMBERS = Scores(YEARS, NumberScores(10, 4.0, 3.0, 0.5), (SiteScores("north", NumberScores(1, 9.0, 9.0, None)),))


@pytest.mark.parametrize("scores", [CLASSES, NUMBERS, Scores(SICK, OVERALL)])
def test_scores_are_read_back_as_they_were_written(scores: Scores) -> None:
    assert Scores.from_dict(json.loads(json.dumps(scores.to_dict()))) == scores


def test_the_worst_site_of_a_figure_is_that_where_it_is_worst_not_where_it_is_smallest() -> None:
    worst = {key: CLASSES.worst(FIGURES[key]) for key in ("accuracy", "auc", "log_loss")}
    assert worst == {"accuracy": ("south", 0.7), "auc": ("south", 0.6), "log_loss": ("west", 0.9)}
    assert CLASSES.to_dict()["worst_site"]["log_loss"] == {"site": "west", "value": 0.9}
    assert NUMBERS.worst(FIGURES["r2"]) is None
    assert Scores(SICK, OVERALL).worst(FIGURES["accuracy"]) is None


def test_in_the_mean_of_the_sites_each_counts_alike() -> None:
    assert CLASSES.mean_of_sites(FIGURES["accuracy"]) == pytest.approx(0.8)
    assert CLASSES.mean_of_sites(FIGURES["auc"]) == pytest.approx(0.65)  # of those that define it
    assert NUMBERS.mean_of_sites(FIGURES["r2"]) is None
    assert NUMBERS.to_dict()["mean_of_sites"] == {"rmse": 9.0, "mae": 9.0, "r2": None}


def test_runs_are_compared_by_accuracy_or_by_the_error_in_the_unit() -> None:
    assert (main_figure(SICK).key, CLASSES.main) == ("accuracy", 0.82)
    assert (main_figure(YEARS).key, NUMBERS.main) == ("rmse", 4.0)


@pytest.mark.parametrize(("accuracy", "useless"), [(0.70, True), (0.82, True), (0.85, True), (0.90, False)])
def test_a_model_must_beat_the_majority_by_more_than_chance(accuracy: float, useless: bool) -> None:
    """Of 100 records 82 are healthy: a difference of 0.038 is what another draw of records would make."""
    assert replace(OVERALL, accuracy=accuracy).is_no_better_than_a_guess is useless


@pytest.mark.parametrize(("r2", "useless"), [(-3.0, True), (0.0, True), (None, True), (0.2, False)])
def test_numbers_must_be_told_better_than_by_their_mean(r2: float | None, useless: bool) -> None:
    assert NumberScores(10, 4.0, 3.0, r2).is_no_better_than_a_guess is useless


@pytest.mark.parametrize(
    "change",
    [{"task": {"kind": "regression"}}, {"overall": {}}, {"sites": [{"site": "x"}]}, {"sites": None}],
)
def test_anything_else_is_refused(change: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Scores.from_dict(CLASSES.to_dict() | change)
    with pytest.raises(TypeError):
        Scores.from_dict(CLASSES.to_dict() | {"overall": CLASSES.to_dict()["overall"] | {"accuracy": "high"}})
