"""The formulas behind a model's scores, with scikit-learn's definitions (tests compare them with it).

They are NumPy in one thread, so that the same outputs give the same bits wherever and on however many cores they were
computed. scikit-learn itself takes a second to import, which every run would pay.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedveil.core.scores import ClassScores, NumberScores, PartScores, Scores, SiteScores
from fedveil.core.tasks import Classification, Regression, Task

if TYPE_CHECKING:
    from torch import Tensor

CALIBRATION_BINS = 10
"""Equal parts of [0, 1] into which answers fall by how sure the model is of them."""

Reals = NDArray[np.float64]
Indices = NDArray[np.int64]


def scores_of(task: Task, outputs: Tensor, labels: Tensor, sites: Iterable[tuple[str, range]] = ()) -> Scores:
    """The scores of outputs `[N, outputs]` for labels `[N]`, and those of named parts that are not empty."""
    values, truth = outputs.double().numpy(), labels.numpy()
    if isinstance(task, Classification):
        values = _probabilities(values)
    parts = tuple(
        SiteScores(name, part_scores(task, values[rows.start : rows.stop], truth[rows.start : rows.stop]))
        for name, rows in sites
        if len(rows)
    )
    return Scores(task, part_scores(task, values, truth), parts)


def part_scores(task: Task, values: Reals, labels: NDArray[np.generic]) -> PartScores:
    """`values` are probabilities `[N, classes]`, or numbers `[N, 1]` as the labels are scaled."""
    if isinstance(task, Regression):
        told = np.clip(values[:, 0], -1, 1)  # as it is told of new records: within the public range
        return _number_scores(told * task.half_width, labels.astype(np.float64) * task.half_width)
    return _class_scores(values, labels.astype(np.int64), task.class_names)


def _class_scores(probabilities: Reals, labels: Indices, names: tuple[str, ...]) -> ClassScores:
    counts = np.bincount(labels, minlength=len(names))
    answers = probabilities.argmax(axis=1)
    finite = bool(np.isfinite(probabilities).all())
    return ClassScores(
        records=len(labels),
        accuracy=_mean(answers == labels),
        majority=float(counts.max() / len(labels)),
        commonest=names[int(counts.argmax())],
        balanced_accuracy=balanced_accuracy(answers, labels),
        auc=area_under_curve(probabilities, labels) if finite else None,
        log_loss=log_loss(probabilities, labels) if finite else None,
        calibration_error=calibration_error(probabilities, labels) if finite else None,
    )


def _number_scores(told: Reals, true: Reals) -> NumberScores:
    errors = told - true
    if not np.isfinite(errors).all():
        return NumberScores(len(true), None, None, None)
    rmse = math.sqrt(float(np.square(errors).mean()))
    return NumberScores(len(true), rmse, float(np.abs(errors).mean()), r_squared(errors, true))


def balanced_accuracy(answers: Indices, labels: Indices) -> float:
    """The mean, over the classes that occur, of the share of a class's records that are recognised."""
    return float(np.mean([_mean(answers[labels == label] == label) for label in np.unique(labels)]))


def area_under_curve(probabilities: Reals, labels: Indices) -> float | None:
    """How often a record of a class gets a higher probability of that class than a record of another one.

    Of two classes that of the second; of more, the mean over the classes, each against the rest. Not defined where a
    class does not occur.
    """
    classes = probabilities.shape[1]
    if len(np.unique(labels)) < classes:
        return None
    wanted = (1,) if classes == 2 else range(classes)
    return float(np.mean([_ranked_above(probabilities[:, label], labels == label) for label in wanted]))


def _ranked_above(values: Reals, positive: NDArray[np.bool_]) -> float:
    """The Mann-Whitney statistic; ties count one half."""
    ones, others = values[positive], np.sort(values[~positive])
    below = np.searchsorted(others, ones, "left").sum() + np.searchsorted(others, ones, "right").sum()
    return int(below) / (2 * len(ones) * len(others))


def log_loss(probabilities: Reals, labels: Indices) -> float:
    """The mean of −log of the probability of the right class; a probability of 0 counts as the smallest step above."""
    small = float(np.finfo(probabilities.dtype).eps)
    right = probabilities[np.arange(len(labels)), labels]
    return float(-np.log(np.clip(right, small, 1 - small)).mean())


def calibration_error(probabilities: Reals, labels: Indices) -> float:
    """The expected calibration error: how far, on average, the share of right answers is from how sure the model was.

    Answers fall into ten equal bins by the probability of the class that was answered.
    """
    sure, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    bins = np.searchsorted(np.linspace(0, 1, CALIBRATION_BINS + 1)[1:-1], sure)
    gaps = np.bincount(bins, weights=sure - right, minlength=CALIBRATION_BINS)
    return float(np.abs(gaps).sum() / len(labels))


def r_squared(errors: Reals, true: Reals) -> float | None:
    """1 − (squared errors) / (squared distances from the mean): 1 is perfect, 0 as good as always telling the mean.

    Where all numbers are the same: 1 if all were told exactly, else 0. Not defined for fewer than two records.
    """
    if len(true) < 2:
        return None
    squares, spread = float(np.square(errors).sum()), float(np.square(true - true.mean()).sum())
    if spread == 0:
        return 1.0 if squares == 0 else 0.0
    return 1 - squares / spread


def _probabilities(outputs: Reals) -> Reals:
    """Softmax, row by row."""
    with np.errstate(invalid="ignore", over="ignore"):
        shifted = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def _mean(marks: NDArray[np.bool_]) -> float:
    return int(marks.sum()) / len(marks)
