"""The part of the page that says how good the model is."""

from __future__ import annotations

import re
from dataclasses import replace

from page_facts import Page, make_run

from fedveil.core.scores import ClassScores, NumberScores, Scores, SiteScores
from fedveil.core.tasks import Classification, Regression
from fedveil.report.model.run_facts import Options, Run
from fedveil.report.page.html_page import page_html

SICK, YEARS = Classification(("healthy", "sick")), Regression(0.0, 80.0, "years")
OVERALL = ClassScores(4000, 0.8219, 0.8219, "healthy", 0.5, 0.625, 0.47, 0.1)
SITES = (
    SiteScores("north", replace(OVERALL, records=1000, accuracy=0.7111)),
    SiteScores("<south> & co", replace(OVERALL, records=3000, accuracy=0.8589, auc=None)),
)


def shown(*runs: Run, **options: bool) -> str:
    return page_html(runs, Options(**options), made="today", version="0")


def test_every_site_the_mean_and_the_worst_have_a_row() -> None:
    html = shown(make_run(task=SICK, scores=Scores(SICK, OVERALL, SITES)))
    text = Page(html).text
    for words in ("overall", "north", "<south> & co", "mean of the sites", "worst site", "0.7111 (north)", "0.7850"):
        assert words in text
    assert "0.8219 (healthy)" in text
    assert "<south>" not in html


def test_every_number_stands_below_its_own_heading() -> None:
    """Each row's cells, by the label that a phone shows beside them."""
    html = shown(make_run(task=SICK, scores=Scores(SICK, OVERALL, SITES)))
    cells = re.findall(r'data-label="([^"]*)">([^<]*)<', html[html.index('id="run1-quality"') :])
    values = [dict(cells[first : first + 7]) for first in range(0, 35, 7)]
    assert values[0] == {
        "records": "4,000",
        "accuracy": "0.8219",
        "majority": "0.8219 (healthy)",
        "balanced accuracy": "0.5000",
        "AUC": "0.6250",
        "log-loss": "0.4700",
        "calibration error": "0.1000",
    }
    assert [row["accuracy"] for row in values] == ["0.8219", "0.7111", "0.8589", "0.7850", "0.7111 (north)"]
    assert [row["majority"] for row in values[3:]] == ["", ""]
    assert values[2]["AUC"] == "–"


def test_a_model_that_learned_nothing_is_called_that_before_any_number() -> None:
    text = Page(shown(make_run(task=SICK, scores=Scores(SICK, OVERALL)))).text
    assert text.index("No better than a guess") < text.index("The verdict")
    assert "no better than always saying 'healthy'" in text
    better = Page(shown(make_run(task=SICK, scores=Scores(SICK, replace(OVERALL, accuracy=0.95))))).text
    assert "No better than a guess" not in better


def test_the_verdict_says_the_accuracy_beside_that_of_always_naming_the_commonest_class() -> None:
    rounds = ({"event": "round", "round": 0, "accuracy": 0.84, "majority": 0.8219},)
    text = Page(shown(make_run(task=SICK, rounds=rounds))).text
    assert "Its accuracy: 84.0 % (always the commonest class: 82.2 %)." in text


def test_a_model_of_numbers_is_told_in_their_unit() -> None:
    rounds = tuple({"event": "round", "round": n, "rmse": 20.0 - n, "mae": 9.0, "r2": 0.4} for n in range(3))
    text = Page(shown(make_run(task=YEARS, rounds=rounds, scores=Scores(YEARS, NumberScores(50, 18.0, 9.0, 0.4))))).text
    assert "RMSE" in text
    assert "18 years" in text
    assert "Error over rounds" in text
    assert "Accuracy over rounds" not in text


def test_a_run_that_kept_no_scores_shows_what_its_last_round_said() -> None:
    text = Page(shown(make_run())).text
    assert "After the last round that was evaluated" in text
    assert "0.8500" in text
    nothing = Page(shown(make_run(rounds=()), release=True)).text
    assert "What was measured on private records is left out of a page for release" in nothing


def test_runs_of_different_tasks_stand_side_by_side() -> None:
    numbers = make_run(task=YEARS, rounds=({"event": "round", "round": 0, "rmse": 18.0},))
    text = Page(shown(make_run(), numbers)).text
    assert "RMSE 18 years" in text
    assert "accuracy 0.8500" in text
