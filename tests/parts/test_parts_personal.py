"""Which model a client starts from."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedveil.core.errors import FedveilError
from fedveil.parts.personal import Attention, Identity, Interpolated


def models(count: int, size: int = 7, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(seed))


def test_the_identity_gives_everybody_the_global_model() -> None:
    shared = models(1)[0]
    assert torch.equal(Identity().helpers(models(3, seed=1), shared), shared.repeat(3, 1))


@given(alpha=st.floats(0, 1))
def test_interpolation_lies_between_the_own_and_the_global_model(alpha: float) -> None:
    own, shared = models(3, seed=1), models(1)[0]
    for mine, helper in zip(own, Interpolated(alpha).helpers(own, shared), strict=True):
        torch.testing.assert_close(helper, (1 - alpha) * mine + alpha * shared)


def test_the_ends_of_interpolation_are_exact() -> None:
    own, shared = models(3, seed=1), models(1)[0]
    assert torch.equal(Interpolated(0.0).helpers(own, shared), own)
    assert torch.equal(Interpolated(1.0).helpers(own, shared), shared.expand_as(own))


def test_a_helper_does_not_depend_on_who_else_asks() -> None:
    own, shared = models(5, 33, seed=1), models(1, 33)[0]
    together = Interpolated(0.3).helpers(own, shared)
    for k in range(5):
        assert torch.equal(together[k], Interpolated(0.3).helpers(own[k : k + 1], shared)[0])


@given(count=st.integers(2, 8), temperature=st.floats(0.05, 20), seed=st.integers(0, 5))
def test_attention_is_a_mean_over_the_others(count: int, temperature: float, seed: int) -> None:
    weights = Attention(0.5, temperature).weights(models(count, seed=seed))
    assert weights.diagonal().tolist() == [0.0] * count
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(count))


def test_attention_follows_the_formula() -> None:
    own = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    scale = (1 + 9 + 10) / 3  # the mean squared distance
    near, far = math.exp(-1 / (0.5 * scale)), math.exp(-9 / (0.5 * scale))
    rule = Attention(0.4, temperature=0.5)
    assert rule.weights(own)[0].tolist() == pytest.approx([0.0, near / (near + far), far / (near + far)], abs=1e-6)
    expected = [0.4 * near / (near + far), 0.4 * 3 * far / (near + far)]
    assert rule.mixtures(own)[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_attention_has_no_unit() -> None:
    own = models(5)
    torch.testing.assert_close(Attention().weights(own), Attention().weights(own * 1e-4), rtol=1e-4, atol=1e-6)


def test_closer_models_help_more_and_a_low_temperature_listens_to_the_nearest_only() -> None:
    own = torch.tensor([[0.0], [1.0], [5.0]])
    weights = Attention().weights(own)
    assert weights[0, 1] > weights[0, 2]
    assert Attention(temperature=0.01).weights(own)[0, 1] == pytest.approx(1.0)
    torch.testing.assert_close(Attention(temperature=1e6).weights(own)[0], torch.tensor([0.0, 0.5, 0.5]))


def test_models_far_from_zero_are_told_apart() -> None:
    own = torch.tensor([[0.0], [1.0], [5.0]])
    torch.testing.assert_close(Attention().weights(own + 1000), Attention().weights(own), rtol=1e-4, atol=1e-5)


def test_a_client_alone_starts_from_its_own_model_and_like_models_stay_as_they_are() -> None:
    alone = models(1)
    torch.testing.assert_close(Attention(0.7).mixtures(alone), alone)
    alike = models(1).repeat(4, 1)
    torch.testing.assert_close(Attention(0.7).mixtures(alike), alike)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, math.nan])
def test_a_mixture_outside_of_the_two_models_is_refused(alpha: float) -> None:
    for rule in (Interpolated, Attention):
        with pytest.raises(FedveilError, match="alpha must lie between 0 and 1"):
            rule(alpha)


def test_a_temperature_that_is_not_positive_is_refused() -> None:
    with pytest.raises(FedveilError, match="temperature must be a positive number"):
        Attention(temperature=0.0)
