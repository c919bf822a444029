"""Losses by the definitions of PyTorch, and which of them fits which task."""

from __future__ import annotations

import pytest
import torch

from fedveil.core.errors import FedveilError
from fedveil.core.objectives import CROSS_ENTROPY, CrossEntropy, Huber, Objective, SquaredError, objective_for
from fedveil.core.tasks import Classification, Regression, Task, read_task, task_record

ANIMALS, YEARS = Classification(("cat", "dog", "eel")), Regression(0.0, 80.0, "years")
OUTPUTS = torch.tensor([[0.2, -1.0, 3.0], [1.0, 1.0, 1.0]])


def test_a_weight_scales_the_loss_of_its_class_and_of_no_other() -> None:
    plain = CROSS_ENTROPY.losses(OUTPUTS, torch.tensor([1, 2]))
    weighted = CrossEntropy((1.0, 5.0, 0.5)).losses(OUTPUTS, torch.tensor([1, 2]))
    assert weighted.tolist() == pytest.approx([5 * float(plain[0]), 0.5 * float(plain[1])])


def test_a_distribution_that_names_one_class_is_that_class() -> None:
    objective, labels = CrossEntropy((1.0, 5.0, 0.5)), torch.tensor([1, 2])
    soft = torch.nn.functional.one_hot(labels, 3).float()
    assert torch.allclose(objective.losses(OUTPUTS, soft), objective.losses(OUTPUTS, labels))


def test_squared_error_and_huber() -> None:
    outputs, labels = torch.tensor([[0.5], [3.0]]), torch.tensor([0.25, -1.0])
    assert SquaredError().losses(outputs, labels).tolist() == [0.0625, 16.0]
    assert Huber(0.5).losses(outputs, labels).tolist() == [0.03125, 0.5 * (4 - 0.25)]


def test_without_a_word_the_task_decides() -> None:
    assert objective_for(ANIMALS) == CROSS_ENTROPY
    assert objective_for(YEARS) == SquaredError()
    assert objective_for(YEARS, Huber(0.1)) == Huber(0.1)


@pytest.mark.parametrize(
    ("task", "objective", "message"),
    [
        (ANIMALS, SquaredError(), "objective.kind: squared does not fit labels that are one of 3 classes; use cross-"),
        (YEARS, CROSS_ENTROPY, "objective.kind: cross-entropy does not fit labels that are a number; use squared or"),
        (ANIMALS, CrossEntropy((1.0, 2.0)), "objective.weights: 2 weights for 3 classes"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_key(task: Task, objective: Objective, message: str) -> None:
    with pytest.raises(FedveilError, match=message):
        objective_for(task, objective)


@pytest.mark.parametrize("objective", [CROSS_ENTROPY, CrossEntropy((100.0, 1.0)), SquaredError(), Huber(), Huber(50.0)])
def test_no_guess_within_reason_counts_as_diverged(objective: Objective) -> None:
    """A model that is as wrong as it can be within the labels' range has not left all bounds; errors of 20 have."""
    if objective.of_numbers:
        assert float(objective.losses(torch.tensor([[1.0]]), torch.tensor([-1.0]))) < objective.out_of_bounds
        assert float(objective.losses(torch.tensor([[20.0]]), torch.tensor([0.0]))) > objective.out_of_bounds
    else:
        assert float(objective.losses(torch.tensor([[0.0, 50.0]]), torch.tensor([0]))) < objective.out_of_bounds


@pytest.mark.parametrize("task", [ANIMALS, YEARS])
def test_a_task_is_read_back_as_it_was_written(task: Task) -> None:
    assert read_task(task_record(task)) == task
    assert read_task(None) is read_task({"kind": "classification", "class_names": ["one"]}) is None
