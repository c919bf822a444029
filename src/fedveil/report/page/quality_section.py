"""How good the model is: overall, on each site's records, and where it is worst."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.core.scores import FIGURES, MAIN_FIGURES, ClassScores, Figure, PartScores, Scores, value_of
from fedveil.report.model.run_facts import Options, Run
from fedveil.report.model.score_texts import figure_text, unit_of, useless_text
from fedveil.report.page.markup import Markup, bullet_list, callout, join, paragraph, table

MEANINGS = {
    "accuracy": "Accuracy: the share of records whose class is told rightly.",
    "majority": "Majority: the share of the commonest class, which is the accuracy of always naming it.",
    "balanced_accuracy": "Balanced accuracy: the mean over classes of the share of a class that is recognised.",
    "auc": "AUC: how often a record of a class is ranked above one of another class; 0.5 is chance, 1 perfect.",
    "log_loss": "Log-loss: how surprised the model is by the right classes; 0 is perfect.",
    "calibration_error": "Calibration error: how far the model's confidence is from how often it is right; 0 is best.",
    "rmse": "RMSE: the root of the mean squared error, which large errors dominate.",
    "mae": "MAE: the mean size of an error.",
    "r2": "R²: the part of the differences between records that is told; 0 is no better than always the mean.",
}


def main_fact(run: Run) -> tuple[str, str]:
    """The name of the task's main figure and its value after the last round that was evaluated."""
    figure = next((one for one in MAIN_FIGURES if one.key in run.figures), MAIN_FIGURES[0])
    value = run.figures.get(figure.key)
    if value is None:
        return figure.name, "not measured"
    if figure.in_unit:
        return figure.name, figure_text(figure, value, unit_of(run.task))
    majority = run.figures.get("majority")
    beside = "" if majority is None else f" (always the commonest class: {_share(majority)})"
    return figure.name, _share(value) + beside


def _share(value: float) -> str:
    return f"{value:.1%}".replace("%", " %")


def quality_warning(run: Run) -> Markup | None:
    """A model that has learned nothing is called that."""
    sentence = None if run.scores is None or run.diverged else useless_text(run.scores)
    return None if sentence is None else callout("warn", "No better than a guess", sentence)


def quality_section(run: Run, options: Options) -> Markup:
    """A table of all figures."""
    if run.scores is not None:
        return _of_scores(run.scores)
    shown = [figure for key, figure in FIGURES.items() if key in run.figures]
    if not shown:
        left_out = " What was measured on private records is left out of a page for release." if options.release else ""
        return paragraph(f"Nothing is known of how good the model is.{left_out}")
    names = [figure.name for figure in shown]
    values = [figure_text(figure, run.figures[figure.key], unit_of(run.task)) for figure in shown]
    if "majority" in run.figures:
        names.insert(1, "majority")
        values.insert(1, f"{run.figures['majority']:.4f}")
    return join([_table("After the last round that was evaluated", names, [["overall", *values]]), _explained(shown)])


def _of_scores(scores: Scores) -> Markup:
    figures, unit = scores.figures, unit_of(scores.task)
    names = ["records", *(figure.name for figure in figures)]
    rows = [["overall", *_values(scores.overall, figures, unit)]]
    rows += [[one.site, *_values(one.scores, figures, unit)] for one in scores.sites]
    if scores.sites:
        means = [figure_text(figure, scores.mean_of_sites(figure), unit) for figure in figures]
        rows += [["mean of the sites", "", *means], ["worst site", "", *(_worst(scores, one, unit) for one in figures)]]
    if isinstance(scores.overall, ClassScores):
        names.insert(2, "majority")
        for row, part in zip(rows, [scores.overall, *(one.scores for one in scores.sites)], strict=False):
            assert isinstance(part, ClassScores)
            row.insert(3, f"{part.majority:.4f} ({part.commonest})")
        for row in rows[1 + len(scores.sites) :]:
            row.insert(3, "")
    remark = "On validation records, which no client trains on. A dash: these records do not define it."
    return join([_table("How good the model is", names, rows), paragraph(remark, class_="muted"), _explained(figures)])


def _values(part: PartScores, figures: Sequence[Figure], unit: str) -> list[str]:
    return [f"{part.records:,}", *(figure_text(figure, value_of(part, figure), unit) for figure in figures)]


def _worst(scores: Scores, figure: Figure, unit: str) -> str:
    worst = scores.worst(figure)
    return "–" if worst is None else f"{figure_text(figure, worst[1], unit)} ({worst[0]})"


def _table(caption: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    headings = ["", *names]
    return table(caption, headings, rows, numbers=range(1, len(headings)), class_="stack figures")


def _explained(figures: Sequence[Figure]) -> Markup:
    keys = [figure.key for figure in figures]
    keys[1:1] = ["majority"] if keys[0] == "accuracy" else []
    return bullet_list([MEANINGS[key] for key in keys], class_="small muted")
