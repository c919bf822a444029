"""Noised counts of right answers: what one record can change, the noise, and what is read from them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedveil.core.noised_scores import scores_from_counts
from fedveil.core.streams import Address, Streams
from fedveil.mechanisms.noise import NoiseSource, grid_width
from fedveil.mechanisms.right_counts import (
    EXCHANGED,
    SENSITIVITY,
    RightCounts,
    counted_cells,
    counts_width,
    loss_limit,
    noised_cells,
    read_counts,
)

OUTPUTS = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 3.0, 0.0], [9.0, 0.0, 0.0]])
LABELS = torch.tensor([0, 1, 2, 2])


def test_counts_are_those_of_right_and_wrong_answers_of_each_class() -> None:
    counts = read_counts(counted_cells(OUTPUTS, LABELS, 2.0).double(), 2.0)
    torch.testing.assert_close(counts.right, torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64))
    torch.testing.assert_close(counts.wrong, torch.tensor([0.0, 0.0, 2.0], dtype=torch.float64))
    losses = torch.nn.functional.cross_entropy(OUTPUTS.double(), LABELS, reduction="none").clamp(max=loss_limit(3))
    assert counts.loss == pytest.approx(float(losses.sum()), rel=1e-6)


def test_outputs_that_are_not_finite_are_wrong_and_have_the_largest_loss() -> None:
    for value in (math.nan, math.inf, -math.inf):
        outputs = torch.full((1, 3), value)
        counts = read_counts(counted_cells(outputs, torch.tensor([1]), 1.0).double(), 1.0)
        assert float(counts.wrong[1]) == pytest.approx(1.0, rel=1e-6)
        assert 0 <= counts.loss <= loss_limit(3) * (1 + 1e-6)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_one_record_changes_no_more_than_is_declared(data: st.DataObject) -> None:
    """With and without it, and exchanged for another, as exact whole numbers of cells."""
    std = data.draw(st.floats(0.3, 300))
    number = st.floats(allow_nan=True, allow_infinity=True, width=32)
    rows = data.draw(st.lists(st.tuples(number, number, number, st.integers(0, 2)), min_size=2, max_size=5))
    outputs, labels = torch.tensor([row[:3] for row in rows]), torch.tensor([row[3] for row in rows])
    cells = counted_cells(outputs, labels, std)
    without = counted_cells(outputs[1:], labels[1:], std)
    exchanged = counted_cells(outputs.roll(1, 0)[:-1], labels.roll(1)[:-1], std) - counted_cells(
        outputs[:-1], labels[:-1], std
    )
    width = grid_width(std)
    assert float((cells - without).double().norm()) * width <= SENSITIVITY
    # rolling takes the first of the others out and brings the last in: one record exchanged
    assert float(exchanged.double().norm()) * width <= EXCHANGED


def test_the_noise_has_the_declared_size_and_is_new_for_every_key() -> None:
    declared = RightCounts(3.0).declare(4)
    assert (declared.sum_std, declared.sensitivity) == (3.0 * math.sqrt(2), math.sqrt(2))
    clean = counted_cells(OUTPUTS, LABELS, declared.sum_std)
    draws = torch.stack(
        [noised_cells(clean, NoiseSource(Streams.from_system()), Address(1, 0)) - clean for _ in range(400)]
    ) * grid_width(declared.sum_std)
    assert draws.shape == (400, counts_width(3))
    assert float(draws.std()) == pytest.approx(declared.sum_std, rel=0.1)
    assert len({tuple(row.tolist()) for row in draws}) == 400


def test_a_training_is_measured_as_often_as_its_rounds_say() -> None:
    assert [RightCounts(1.0, every).times(10) for every in (1, 3, 5, 10, 20)] == [10, 4, 2, 1, 1]


def test_figures_come_from_counts_and_stay_between_0_and_1() -> None:
    scores = scores_from_counts([30.0, 10.0], [10.0, 0.0], 25.0, 50, ["no", "yes"])
    assert scores.accuracy == 0.8
    assert scores.balanced_accuracy == pytest.approx((0.75 + 1.0) / 2)
    assert (scores.majority, scores.commonest, scores.log_loss, scores.auc) == (0.8, "no", 0.5, None)
    wild = scores_from_counts([70.0, -9.0], [-30.0, 2.0], -5.0, 50, ["no", "yes"])
    assert wild.accuracy == 1.0
    assert wild.log_loss == 0.0
