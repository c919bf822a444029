"""How good a model is, in short lines and in plain words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedveil.core.scores import FIGURES, ClassScores, NumberScores, Scores, SiteScores
from fedveil.core.tasks import Classification, Regression, Task
from fedveil.report.model.score_texts import (
    figure_heading,
    figure_text,
    main_text,
    measured_text,
    scores_text,
    useless_text,
    worst_text,
)

SICK, YEARS = Classification(("healthy", "sick")), Regression(0.0, 80.0, "years")
CLASSES = ClassScores(4000, 0.8219, 0.8219, "healthy", 0.5, 0.625, 0.47, 0.1)
NUMBERS = NumberScores(50, 12.3456789, 9.0, 0.25)


@pytest.mark.parametrize(
    ("figures", "task", "text"),
    [
        ({"accuracy": 0.8219, "majority": 0.8219, "auc": 0.625}, SICK, "accuracy 0.8219 (majority 0.8219)  AUC 0.6250"),
        ({"accuracy": 0.9, "majority": 0.1, "auc": 0.99}, Classification(("a", "b", "c")), "accuracy 0.9000 (majority"),
        ({"rmse": 12.3456789, "mae": 9.0, "r2": 0.5}, YEARS, "RMSE 12.346 years"),
        ({"accuracy": 0.5}, None, "accuracy 0.5000"),  # what an older version wrote down
        ({"accuracy": "?", "loss": 1.0}, SICK, ""),
    ],
)
def test_the_line_of_a_round_has_the_main_figures_of_its_task(
    figures: dict[str, Any], task: Task | None, text: str
) -> None:
    line = measured_text(figures, task)
    assert line.startswith(text)
    assert bool(line) == bool(text)
    assert ("AUC" in line) == (task == SICK and bool(text))


def test_a_finished_run_says_what_always_naming_one_class_would_reach() -> None:
    text = scores_text(Scores(SICK, CLASSES))
    assert text == "accuracy 0.8219 (always 'healthy': 0.8219), balanced accuracy 0.5000, AUC 0.6250"
    assert scores_text(Scores(YEARS, NUMBERS)) == "RMSE 12.346 years, MAE 9 years, R² 0.2500"
    assert main_text(Scores(YEARS, NUMBERS), None) == "RMSE 12.346 years"
    assert main_text(None, 0.75) == "accuracy 0.7500"


def test_a_useless_model_is_called_that_and_a_good_one_is_not() -> None:
    sentence = useless_text(Scores(SICK, CLASSES))
    assert sentence is not None
    assert "no better than always saying 'healthy', which is right for 0.8219 of the 4,000" in sentence
    assert "AUC 0.6250 (0.5 is chance)" in sentence
    assert useless_text(Scores(SICK, replace(CLASSES, accuracy=0.9))) is None
    number = useless_text(Scores(YEARS, replace(NUMBERS, r2=-0.5)))
    assert number is not None
    assert "no better than always telling the mean" in number
    assert useless_text(Scores(YEARS, NUMBERS)) is None


def test_the_worst_site_is_named_for_each_main_figure() -> None:
    sites = (
        SiteScores("north", replace(CLASSES, accuracy=0.7, auc=0.9)),
        SiteScores("south", replace(CLASSES, accuracy=0.8, auc=0.6)),
    )
    assert worst_text(Scores(SICK, CLASSES, sites)) == "worst of 2 sites: accuracy 0.7000 (north), AUC 0.6000 (south)"
    assert worst_text(Scores(SICK, CLASSES)) is None


def test_what_is_not_defined_is_a_dash() -> None:
    assert figure_text(FIGURES["auc"], None) == "–"
    assert figure_heading({"figure": "rmse", "unit": "years"}) == "RMSE (years)"
    assert figure_heading({"figure": "accuracy", "unit": ""}) == "accuracy"
