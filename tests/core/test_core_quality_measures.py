"""Every figure is what scikit-learn makes of the same answers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn import metrics
from sklearn.calibration import calibration_curve

from fedveil.core.quality_measures import CALIBRATION_BINS, part_scores, scores_of
from fedveil.core.scores import ClassScores, NumberScores
from fedveil.core.tasks import Classification, Regression

YEARS = Regression(20.0, 90.0, "years")


def named(classes: int) -> Classification:
    return Classification(tuple(f"class {label}" for label in range(classes)))


def answers(classes: int, count: int, seed: int, *, step: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that know something of the labels; rounded to multiples of `step`, so that there are ties."""
    generator = torch.Generator().manual_seed(seed)
    shares = torch.arange(1, classes + 1).double() ** 2
    labels = torch.multinomial(shares, count, replacement=True, generator=generator)
    logits = torch.randn(count, classes, generator=generator) + torch.nn.functional.one_hot(labels, classes)
    return (logits / step).round() * step if step else logits, labels


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("step", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_classes_are_scored_as_scikit_learn_scores_them(classes: int, step: float, seed: int) -> None:
    outputs, labels = answers(classes, 400, seed, step=step)
    shares, truth = torch.softmax(outputs.double(), dim=1).numpy(), labels.numpy()
    scores, told = part_scores(named(classes), shares, truth), outputs.numpy().argmax(axis=1)
    assert isinstance(scores, ClassScores)
    from_outputs = scores_of(named(classes), outputs, labels).overall
    assert isinstance(from_outputs, ClassScores)
    assert from_outputs.log_loss == pytest.approx(scores.log_loss, rel=1e-12)
    assert scores.accuracy == metrics.accuracy_score(truth, told)
    assert scores.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(truth, told), abs=1e-12)
    assert scores.log_loss == pytest.approx(metrics.log_loss(truth, shares), rel=1e-12)
    if classes == 2:
        area = metrics.roc_auc_score(truth, shares[:, 1])
    else:
        area = metrics.roc_auc_score(truth, shares, multi_class="ovr", average="macro")
    assert scores.auc == pytest.approx(area, abs=1e-12)
    assert scores.majority == np.bincount(truth).max() / len(truth)
    assert scores.commonest == f"class {np.bincount(truth).argmax()}"


@pytest.mark.parametrize("classes", [2, 5])
def test_the_calibration_error_weighs_the_points_of_scikit_learns_calibration_curve(classes: int) -> None:
    outputs, labels = answers(classes, 500, 3)
    shares = torch.softmax(3 * outputs.double(), dim=1).numpy()
    scores = part_scores(named(classes), shares, labels.numpy())
    assert isinstance(scores, ClassScores)
    sure, right = shares.max(axis=1), shares.argmax(axis=1) == labels.numpy()
    share_right, mean_sure = calibration_curve(right, sure, n_bins=CALIBRATION_BINS)
    counts = np.bincount(np.searchsorted(np.linspace(0, 1, CALIBRATION_BINS + 1)[1:-1], sure))
    weights = counts[counts > 0] / len(labels)
    assert scores.calibration_error == pytest.approx(float((weights * abs(share_right - mean_sure)).sum()), abs=1e-12)


def test_a_model_that_is_sure_and_right_has_no_calibration_error_and_one_that_is_sure_and_wrong_has_all() -> None:
    outputs, labels = torch.tensor([[0.0, 100.0], [100.0, 0.0]]), torch.tensor([1, 0])
    right, wrong = (scores_of(named(2), outputs, truth).overall for truth in (labels, 1 - labels))
    assert isinstance(right, ClassScores)
    assert isinstance(wrong, ClassScores)
    assert (right.calibration_error, wrong.calibration_error) == (pytest.approx(0), pytest.approx(1))
    assert (right.auc, wrong.auc) == (1, 0)
    assert wrong.log_loss == pytest.approx(metrics.log_loss([0, 1], [[0.0, 1.0], [1.0, 0.0]]))


def test_numbers_are_scored_as_scikit_learn_scores_them_in_their_unit_and_within_their_range() -> None:
    generator = torch.Generator().manual_seed(1)
    labels = torch.rand(300, generator=generator) * 2 - 1
    outputs = (labels + 0.3 * torch.randn(300, generator=generator)).unsqueeze(1)
    scores = scores_of(YEARS, outputs, labels).overall
    assert isinstance(scores, NumberScores)
    assert (outputs.abs() > 1).any()
    true, told = ((part.double().clamp(-1, 1).numpy() + 1) * 35 + 20 for part in (labels, outputs[:, 0]))
    assert scores.rmse == pytest.approx(metrics.mean_squared_error(true, told) ** 0.5, rel=1e-12)
    assert scores.mae == pytest.approx(metrics.mean_absolute_error(true, told), rel=1e-12)
    assert scores.r2 == pytest.approx(metrics.r2_score(true, told), rel=1e-12)


def test_numbers_that_are_all_the_same_are_scored_as_scikit_learn_does() -> None:
    labels = torch.full((3,), 0.5)
    for outputs in (labels, torch.tensor([0.5, 0.25, 0.5])):
        scores = scores_of(YEARS, outputs.unsqueeze(1), labels).overall
        assert isinstance(scores, NumberScores)
        assert scores.r2 == metrics.r2_score(labels.numpy(), outputs.numpy())


def test_what_the_records_do_not_define_is_left_open() -> None:
    outputs, labels = answers(3, 50, 1)
    part = scores_of(named(3), outputs[labels < 2], labels[labels < 2]).overall
    assert isinstance(part, ClassScores)
    assert part.auc is None
    assert part.balanced_accuracy is not None
    alone = scores_of(YEARS, torch.tensor([[0.1]]), torch.tensor([0.2])).overall
    assert isinstance(alone, NumberScores)
    assert alone.r2 is None
    assert alone.rmse is not None


def test_outputs_that_are_no_numbers_give_no_figures_and_no_error() -> None:
    broken = scores_of(YEARS, torch.tensor([[torch.nan], [0.5]]), torch.tensor([0.2, 0.1])).overall
    assert broken == NumberScores(2, None, None, None)
    classes = scores_of(named(2), torch.tensor([[torch.nan, 0.0], [torch.inf, 1.0]]), torch.tensor([0, 1])).overall
    assert isinstance(classes, ClassScores)
    assert (classes.auc, classes.log_loss, classes.calibration_error) == (None, None, None)


def test_named_parts_of_the_records_have_scores_of_their_own() -> None:
    outputs, labels = answers(2, 90, 5)
    sites = [("north", range(30)), ("empty", range(30, 30)), ("south", range(30, 90))]
    scores = scores_of(named(2), outputs, labels, sites)
    assert [one.site for one in scores.sites] == ["north", "south"]
    for one, rows in zip(scores.sites, (slice(0, 30), slice(30, 90)), strict=True):
        assert one.scores == scores_of(named(2), outputs[rows], labels[rows]).overall
