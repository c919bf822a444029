"""Scores of reconstructions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fedveil.attacks.inversion.invert import Reconstruction
from fedveil.attacks.inversion.metrics import Successes, blind_rmse, scores, ssim, summarise_scores
from fedveil.attacks.inversion.victims import Truth


def make_truth(records: int = 4) -> Truth:
    inputs = torch.rand(2, records, 1, 9, 9, generator=torch.Generator().manual_seed(0))
    return Truth((7, 9), inputs, torch.arange(records).expand(2, -1), torch.full((2,), records))


def reconstruction(inputs: torch.Tensor, labels: torch.Tensor) -> Reconstruction:
    return Reconstruction(inputs, labels, torch.zeros(2), torch.tensor([30, 40]), inputs)


def test_a_batch_in_another_order_is_the_same_batch() -> None:
    truth, order = make_truth(), torch.tensor([2, 0, 3, 1])
    scored = scores(reconstruction(truth.inputs[:, order], truth.labels[:, order]), truth, Successes(truth, 0.1))
    assert [score.rmse for score in scored] == [0, 0]
    assert all(score.success and score.label_accuracy == 1 for score in scored)
    assert scored[0].ssim == pytest.approx(1)
    assert scored[0].psnr == 100


def test_errors_are_measured_in_the_units_of_the_records() -> None:
    truth = make_truth(1)
    scored = scores(reconstruction(truth.inputs + 0.2, truth.labels + 1), truth, Successes(truth, 0.1))
    assert scored[0].rmse == pytest.approx(0.2, rel=1e-5)
    assert scored[0].mse == pytest.approx(0.04, rel=1e-5)
    assert scored[0].psnr == pytest.approx(13.979, abs=1e-3)
    assert not scored[0].success
    assert scored[0].label_accuracy == 0
    assert scored[0].iterations == 30  # all that were made
    assert summarise_scores(scored).means["iterations"] == 35


def test_iterations_to_success_are_counted_when_it_first_happens() -> None:
    truth = make_truth(1)
    successes = Successes(truth, 0.1)
    members = torch.tensor([0, 1])
    successes(members, torch.tensor([20, 20]), truth.inputs + 0.3)
    successes(members, torch.tensor([41, 60]), truth.inputs + torch.tensor([0.05, 0.3]).view(2, 1, 1, 1, 1))
    successes(members, torch.tensor([80, 80]), truth.inputs)
    assert successes.first == {0: 3, 1: 4}
    scored = scores(reconstruction(truth.inputs, truth.labels), truth, successes)
    assert [score.iterations for score in scored] == [3, 4]


def test_padding_of_a_batch_does_not_count() -> None:
    full = make_truth(3)
    truth = Truth(full.clients, full.inputs, full.labels, torch.tensor([2, 3]))
    scored = scores(reconstruction(full.inputs, full.labels), truth, Successes(truth, 0.1))
    assert scored[0].rmse == 0


def test_structural_similarity_falls_with_noise_and_is_one_for_equals() -> None:
    generator = torch.Generator().manual_seed(1)
    picture = torch.linspace(0, 1, 256).view(1, 1, 16, 16)
    noise = torch.randn(1, 1, 16, 16, generator=generator)
    values = [float(ssim(picture, picture + level * noise)) for level in (0, 0.1, 0.5)]
    assert values[0] == pytest.approx(1)
    assert values[0] > values[1] > values[2]


def test_structural_similarity_is_that_of_wang_et_al_window_by_window() -> None:
    first, second = torch.rand(2, 1, 1, 9, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    found = []
    for row in range(3):
        for column in range(2):
            x, y = (picture[0, 0, row : row + 7, column : column + 7].numpy().ravel() for picture in (first, second))
            covariance = np.cov(x, y)  # by 48, not 49
            likeness = (2 * x.mean() * y.mean() + 0.01**2) * (2 * covariance[0, 1] + 0.03**2)
            scale = (x.mean() ** 2 + y.mean() ** 2 + 0.01**2) * (covariance[0, 0] + covariance[1, 1] + 0.03**2)
            found.append(likeness / scale)
    assert float(ssim(first, second)) == pytest.approx(float(np.mean(found)), rel=1e-9)


def test_a_victim_s_error_is_the_mean_of_its_records_errors() -> None:
    truth = make_truth(2)
    shifts = torch.tensor([0.1, 0.3]).view(1, 2, 1, 1, 1)
    (score, _) = scores(reconstruction(truth.inputs + shifts, truth.labels), truth, Successes(truth, 0.1))
    assert score.rmse == pytest.approx(0.2, rel=1e-5)
    assert score.mse == pytest.approx(0.05, rel=1e-5)


def test_decibels_of_tables_are_relative_to_the_range_of_their_values() -> None:
    inputs = torch.tensor([[[0.0, 4.0]], [[-4.0, 2.0]]])
    truth = Truth((7, 9), inputs, torch.zeros(2, 1, dtype=torch.int64), torch.ones(2, dtype=torch.int64))
    (score, _) = scores(reconstruction(inputs + 0.8, truth.labels), truth, Successes(truth, 0.1))
    assert score.psnr == pytest.approx(20 * math.log10(8 / 0.8), abs=1e-4)
    assert score.ssim is None


def test_a_batch_in_another_order_is_a_success_in_the_iteration_that_found_it() -> None:
    truth, order = make_truth(), torch.tensor([2, 0, 3, 1])
    successes = Successes(truth, 0.1)
    successes(torch.tensor([0, 1]), torch.tensor([20, 20]), truth.inputs[:, order])
    assert set(successes.first) == {0, 1}


def test_deviations_are_those_of_all_victims() -> None:
    truth = make_truth(1)
    shifts = torch.tensor([0.1, 0.3]).view(2, 1, 1, 1, 1)
    found = summarise_scores(scores(reconstruction(truth.inputs + shifts, truth.labels), truth, Successes(truth, 0.2)))
    assert found.means["rmse"] == pytest.approx(0.2, rel=1e-5)
    assert found.deviations["rmse"] == pytest.approx(0.1, rel=1e-5)
    assert found.success_rate == 0.5


def test_guessing_blindly_is_measured_too() -> None:
    assert blind_rmse(make_truth()) == pytest.approx(12**-0.5, rel=0.05)
    tables = Truth(
        (1,), torch.randn(1, 50, 30, generator=torch.Generator().manual_seed(0)), torch.zeros(1, 50), torch.tensor([50])
    )
    assert blind_rmse(tables) == pytest.approx(1, rel=0.05)
