"""How good a model is, as short texts: the same wherever they are printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedveil.core.scores import FIGURES, MAIN_FIGURES, ClassScores, Figure, NumberScores, Scores, main_figure, value_of
from fedveil.core.tasks import Regression, Task


def figure_text(figure: Figure, value: float | None, unit: str = "") -> str:
    """One figure: four places, or five digits and the unit; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:.5g} {unit}".rstrip() if figure.in_unit else f"{value:.4f}"


def unit_of(task: Task | None) -> str:
    return task.unit if isinstance(task, Regression) else ""


def figure_heading(row: Mapping[str, Any]) -> str:
    """The name of the figure that rows of several runs are compared by, with its unit."""
    name, unit = FIGURES[row["figure"]].name, row["unit"]
    return f"{name} ({unit})" if unit else name


def measured_text(figures: Mapping[str, Any], task: Task | None) -> str:
    """The main figures of one evaluation: accuracy beside the majority's share, AUC of two classes, RMSE; else nothing.

    `figures` are those of a round's event; older events have no more than an accuracy, and their task is not known.
    """
    main = next((figure for figure in MAIN_FIGURES if _number(figures.get(figure.key)) is not None), None)
    if main is None:
        return ""
    text = f"{main.name} {figure_text(main, figures[main.key], unit_of(task))}"
    majority, auc = _number(figures.get("majority")), _number(figures.get("auc"))
    if majority is not None:
        text += f" (majority {majority:.4f})"
    if auc is not None and task is not None and task.outputs == 2:
        text += f"  AUC {auc:.4f}"
    return text


def main_text(scores: Scores | None, accuracy: float | None) -> str:
    """The main figure of a finished run; older ones have an accuracy alone."""
    if scores is None:
        return f"accuracy {figure_text(FIGURES['accuracy'], accuracy)}"
    figure = main_figure(scores.task)
    return f"{figure.name} {figure_text(figure, scores.main, unit_of(scores.task))}"


def scores_text(scores: Scores) -> str:
    """What a finished run says of its model."""
    overall, unit = scores.overall, unit_of(scores.task)
    if isinstance(overall, NumberScores):
        parts = [f"{FIGURES[key].name} {_text(overall, key, unit)}" for key in ("rmse", "mae", "r2")]
    else:
        parts = [f"accuracy {_text(overall, 'accuracy')} (always '{overall.commonest}': {overall.majority:.4f})"]
        parts += [f"{FIGURES[key].name} {_text(overall, key)}" for key in ("balanced_accuracy", "auc")]
    return ", ".join(parts)


def worst_text(scores: Scores) -> str | None:
    """On which site the main figures are worst."""
    unit, parts = unit_of(scores.task), []
    for figure in scores.figures:
        worst = scores.worst(figure)
        if figure.key in ("accuracy", "auc", "rmse") and worst is not None:
            parts.append(f"{figure.name} {figure_text(figure, worst[1], unit)} ({worst[0]})")
    return f"worst of {len(scores.sites)} sites: {', '.join(parts)}" if parts else None


def useless_text(scores: Scores) -> str | None:
    """A plain sentence where the model is no better than a guess that knows nothing of a record."""
    overall = scores.overall
    if not overall.is_no_better_than_a_guess:
        return None
    if isinstance(overall, ClassScores):
        ranks = "" if overall.auc is None else f" How well it ranks records: AUC {overall.auc:.4f} (0.5 is chance)."
        return (
            f"The model's answers are no better than always saying '{overall.commonest}', which is right for"
            f" {overall.majority:.4f} of the {overall.records:,} validation records; the model is for"
            f" {_text(overall, 'accuracy')}.{ranks}"
        )
    return (
        f"The model is no better than always telling the mean of the {overall.records:,} validation records: its R² is"
        f" {_text(overall, 'r2')}."
    )


def _text(scores: ClassScores | NumberScores, key: str, unit: str = "") -> str:
    return figure_text(FIGURES[key], value_of(scores, FIGURES[key]), unit)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
