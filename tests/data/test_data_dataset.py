"""The checks on anyone's own tensors, and what tells one data set from another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fedveil.core.errors import FedveilError
from fedveil.core.tasks import Classification, Regression
from fedveil.data.dataset import Examples, from_tensors, scaled_labels, strata, to_float


def test_bytes_become_numbers_between_zero_and_one() -> None:
    assert to_float(torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist() == pytest.approx([0, 0.2, 1])
    numbers = torch.tensor([-3.0, 7.5])
    assert to_float(numbers) is numbers


def examples(count: int = 4, labels: list[int] | None = None, fill: float = 0.0) -> Examples:
    return Examples(torch.full((count, 3), fill), torch.tensor(labels or [0, 1] * (count // 2)))


def test_own_tensors_make_a_data_set() -> None:
    data = from_tensors("mine", examples(), examples(2))
    assert (data.classes, data.input_shape, data.class_names) == (2, (3,), ("0", "1"))
    assert len(data.train) == 4


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (examples(fill=float("nan")), "train: example 0 holds a value that is not a finite number"),
        (examples(fill=float("inf")), "not a finite number"),
        (examples(4, [0, 1, 2, 0]), "label 2, expected 0 to 1"),
        (examples(4, [0, -1, 1, 0]), "label -1, expected 0 to 1"),
        (examples(4, [0, 1]), "4 inputs but 2 labels"),
        (Examples(torch.empty(0, 3), torch.empty(0, dtype=torch.int64)), "is empty"),
        (Examples(torch.zeros(2, 3, dtype=torch.float64), torch.tensor([0, 1])), "uint8 or float32"),
        (Examples(torch.zeros(2), torch.tensor([0, 1])), r"must be \[examples, …\]"),
        (Examples(torch.zeros(2, 3), torch.tensor([0.0, 1.0])), "vector of int64"),
        (Examples(torch.zeros(2, 4), torch.tensor([0, 1])), "not of the same shape"),
    ],
)
def test_own_tensors_are_checked(train: Examples, message: str) -> None:
    with pytest.raises(FedveilError, match=message) as caught:
        from_tensors("mine", train, examples(), 2)
    assert "\n" not in str(caught.value)


def test_class_names_must_fit() -> None:
    with pytest.raises(FedveilError, match="3 class names for 2 classes"):
        from_tensors("mine", examples(), examples(), 2, class_names=("a", "b", "c"))
    with pytest.raises(FedveilError, match="at least 2 classes"):
        from_tensors("mine", examples(2, [0, 0]), examples(2, [0, 0]))


def test_tensors_of_any_order_in_memory_are_taken_and_laid_out_plainly() -> None:
    pictures = torch.rand(4, 6, 5, 3).permute(0, 3, 1, 2)
    part = Examples(pictures, torch.tensor([0, 1, 0, 1]))
    found = from_tensors("mine", part, part)
    assert found.train.inputs.is_contiguous()
    assert torch.equal(found.validation.inputs, pictures)
    assert found.input_shape == (3, 6, 5)


def test_records_are_told_apart_by_their_fingerprint() -> None:
    labels = torch.tensor([0, 1, 0, 1])
    one, same, other = (Examples(torch.full((4, 2), value), labels) for value in (1.0, 1.0, 2.0))
    assert from_tensors("a", one, one).fingerprint == from_tensors("b", same, one).fingerprint
    assert from_tensors("a", one, one).fingerprint != from_tensors("a", other, one).fingerprint
    assert from_tensors("a", one, one).fingerprint != from_tensors("a", one, other).fingerprint


@pytest.mark.parametrize("make", [tuple, list, lambda pair: Examples(*pair)])
def test_arrays_are_taken_as_well_as_tensors(make: Callable[[list[Any]], Any]) -> None:
    inputs, labels = np.arange(12.0).reshape(6, 2), np.arange(6, dtype=np.int32) % 2
    data = from_tensors("mine", make([inputs, labels]), (inputs[:2].tolist(), [0, 1]))
    assert torch.equal(data.train.inputs, torch.arange(12.0).view(6, 2))
    assert (data.train.labels.dtype, data.train.labels.tolist()) == (torch.int64, [0, 1] * 3)


def test_labels_of_arrays_may_be_the_names_of_the_classes() -> None:
    pair = (np.zeros((3, 2)), np.array(["yes", "no", "yes"]))
    assert from_tensors("mine", pair, pair, 2, class_names=("no", "yes")).train.labels.tolist() == [1, 0, 1]
    with pytest.raises(FedveilError, match="labels are no numbers; name the classes"):
        from_tensors("mine", pair, pair)


@pytest.mark.parametrize(
    ("labels", "problem"), [([1, 2, 1], "from 1 to 2, and no record has label 0"), ([0, 2, 0], "label 1")]
)
def test_classes_of_which_there_is_no_record_are_said_and_not_guessed(labels: list[int], problem: str) -> None:
    part = Examples(torch.zeros(3, 2), torch.tensor(labels))
    with pytest.raises(FedveilError, match=problem):
        from_tensors("mine", part, part)
    assert from_tensors("mine", part, part, 3).classes == 3


def test_tokens_are_whole_numbers_and_stay_so() -> None:
    part = Examples(torch.tensor([[3, 0, 7], [1, 1, 2]]), torch.tensor([0, 1]))
    assert to_float(from_tensors("mine", part, part).train.inputs).dtype == torch.int64
    negative = Examples(torch.tensor([[3, 0], [1, -1]]), torch.tensor([0, 1]))
    with pytest.raises(FedveilError, match="example 1 holds a negative token"):
        from_tensors("mine", negative, negative)


YEARS = Regression(0.0, 80.0, "years")


def numbers(count: int = 4, label: float = 0.5) -> Examples:
    return Examples(torch.zeros(count, 3), torch.full((count,), label))


def test_a_task_says_how_many_outputs_a_model_has_and_what_the_classes_are_called() -> None:
    ages = from_tensors("mine", numbers(), numbers(2), task=YEARS)
    assert (ages.task, ages.task.outputs, ages.classes, ages.class_names) == (YEARS, 1, 0, ())
    named = from_tensors("mine", examples(), examples(), task=Classification(("no", "yes", "perhaps")))
    assert (named.task.outputs, named.classes, named.class_names) == (3, 3, ("no", "yes", "perhaps"))


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (numbers(label=1.5), "train: label 1.5, expected -1 to 1; scaled_labels"),
        (numbers(label=float("nan")), "train: label nan, expected -1 to 1"),
        (examples(), "labels must be a vector of float32, not torch.int64"),
    ],
)
def test_labels_of_a_regression_are_checked(train: Examples, message: str) -> None:
    with pytest.raises(FedveilError, match=message):
        from_tensors("mine", train, numbers(), task=YEARS)


def test_a_task_and_classes_are_not_given_together() -> None:
    with pytest.raises(FedveilError, match="a task, or classes and class_names, not both"):
        from_tensors("mine", numbers(), numbers(), 2, task=YEARS)


def test_numbers_are_scaled_by_the_public_range_and_clipped() -> None:
    assert scaled_labels([0, 40, 60, 80], YEARS).tolist() == [-1.0, 0.0, 0.5, 1.0]
    outside = scaled_labels(torch.tensor([-5.0, float("inf")]), YEARS)
    assert outside.tolist() == [-1.0, 1.0]
    assert outside.dtype == torch.float32
    with pytest.raises(FedveilError, match="number 1 is not a number"):
        scaled_labels([1.0, float("nan")], YEARS)


def test_a_range_of_a_regression_is_finite_and_not_empty() -> None:
    with pytest.raises(FedveilError, match="high must be a finite number"):
        Regression(0.0, float("inf"))
    with pytest.raises(FedveilError, match="must be above low"):
        Regression(1.0, 1.0)


def test_numbers_are_dealt_by_their_part_of_the_range() -> None:
    assert strata(torch.tensor([-1.0, -0.81, -0.79, 0.0, 1.0]), YEARS).tolist() == [0, 0, 1, 5, 9]
    labels = torch.tensor([0, 1])
    assert strata(labels, Classification(("no", "yes"))) is labels
