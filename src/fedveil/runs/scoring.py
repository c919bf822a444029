"""What a run measures of its models: after a round on all validation records, at the end also on each site's."""

from __future__ import annotations

from dataclasses import asdict

from fedveil.core.quality_measures import scores_of
from fedveil.core.scores import Scores
from fedveil.core.tasks import Regression
from fedveil.engine.batched import Evaluation
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
    overall = scores_of(dataset.task, evaluation.outputs, dataset.validation.labels).overall
    figures = {"loss": evaluation.mean_loss}
    figures |= {key: value for key, value in asdict(overall).items() if isinstance(value, float)}
    name, unit = ("mae", dataset.task.half_width) if isinstance(dataset.task, Regression) else ("accuracy", 1.0)
    if prepared.spec.data.test:
        figures[f"own_{name}"] = evaluation.own * unit
    if personal is not None and personal.own_score is not None:
        figures[f"personal_{name}"] = personal.own_score * unit
    return figures


def final_scores(prepared: Prepared, evaluation: Evaluation) -> Scores:
    """All figures, on all validation records and on those of each named site."""
    dataset = prepared.dataset
    sites = ((site.name, site.validation) for site in dataset.sites)
    return scores_of(dataset.task, evaluation.outputs, dataset.validation.labels, sites)
