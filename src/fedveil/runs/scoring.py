"""What a run measures of its models: after a round on all validation records, at the end also on each site's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import torch

from fedveil.core.noised_scores import scores_from_counts
from fedveil.core.quality_measures import scores_of
from fedveil.core.scores import ClassScores, PartScores, Scores, SiteScores
from fedveil.core.tasks import Classification, Regression, Task
from fedveil.engine.batched import Evaluation, SiteCounts
from fedveil.engine.personal_models import AtTheirSites, PersonalModels
from fedveil.runs.prepare import Prepared

OWN_FIGURES = ("own_accuracy", "personal_accuracy", "own_mae", "personal_mae")
"""Means over clients, on their own test sets: the global model's and their own models'."""


def round_figures(
    prepared: Prepared, evaluation: Evaluation, personal: PersonalModels | AtTheirSites | None
) -> dict[str, float]:
    """The global model on the validation records and on the clients' own test sets, and the clients' own models.

    What these records do not define is left out.
    """
    dataset = prepared.dataset
    overall = _overall(prepared, evaluation)
    figures = {"loss": evaluation.mean_loss}
    figures |= {key: value for key, value in asdict(overall).items() if isinstance(value, float)}
    name, unit = ("mae", dataset.task.half_width) if isinstance(dataset.task, Regression) else ("accuracy", 1.0)
    if prepared.spec.data.test:
        figures[f"own_{name}"] = evaluation.own * unit
    if personal is not None and personal.own_score is not None:
        figures[f"personal_{name}"] = personal.own_score * unit
    return figures


def _overall(prepared: Prepared, evaluation: Evaluation) -> PartScores:
    task = prepared.dataset.task
    if evaluation.counted:
        return _counted_scores(task, evaluation.counted)
    if not evaluation.measured and isinstance(task, Classification):
        return ClassScores(0, None, 0.0, task.class_names[0], None, None, None, None)
    return scores_of(task, evaluation.outputs, prepared.dataset.validation.labels).overall


def final_scores(prepared: Prepared, evaluation: Evaluation) -> Scores:
    """All figures, on all validation records and on those of each named site."""
    dataset = prepared.dataset
    if evaluation.counted:
        own = (SiteScores(one.site, _counted_scores(dataset.task, [one])) for one in evaluation.counted)
        return Scores(dataset.task, _counted_scores(dataset.task, evaluation.counted), tuple(own))
    if not evaluation.measured:
        return Scores(dataset.task, _overall(prepared, evaluation))
    sites = ((site.name, site.validation) for site in dataset.sites)
    return scores_of(dataset.task, evaluation.outputs, dataset.validation.labels, sites)


def _counted_scores(task: Task, counted: Sequence[SiteCounts]) -> ClassScores:
    """Figures of what sites counted, with all their noise."""
    assert isinstance(task, Classification)  # plans refuse counts of anything else
    right, wrong = (
        torch.stack([getattr(one.counts, name) for one in counted]).sum(dim=0).tolist() for name in ("right", "wrong")
    )
    loss, records = sum(one.counts.loss for one in counted), sum(one.records for one in counted)
    return scores_from_counts(right, wrong, loss, records, task.class_names)
