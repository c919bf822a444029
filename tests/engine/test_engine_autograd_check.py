"""What a fast path computes is compared with autograd before it is relied on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn

from fedveil.core.objectives import CROSS_ENTROPY
from fedveil.engine.autograd_check import TRIED_ONCE_FROM, _difference, _outcome, disagreement, nobodys
from fedveil.engine.batched import choose
from fedveil.engine.fused import Fused
from fedveil.engine.fused.dense import Dense
from fedveil.engine.layered import Layered
from fedveil.mechanisms.clip import Limit
from fedveil.native.calls import VECTOR_WIDTHS
from fedveil.native.small_layers import ConvolutionShape

SHAPE = (1, 6, 6)


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 4))


def fails(*arguments: object) -> Tensor:
    raise RuntimeError("a mistake in a stage")


def twice(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *arguments: right(*arguments) * 2


def test_a_sound_path_agrees_and_is_taken() -> None:
    fused = Fused.build(network(), SHAPE)
    assert fused is not None
    assert disagreement(fused, network(), SHAPE, CROSS_ENTROPY) is None
    assert isinstance(choose(network(), torch.zeros(1, *SHAPE)), Fused)


def test_a_fused_path_that_fails_is_not_taken() -> None:
    with patch.object(Dense, "measure", fails):
        assert isinstance(choose(network(), torch.zeros(1, *SHAPE)), Layered)


def test_a_fused_path_that_computes_something_else_is_not_taken() -> None:
    with (
        patch("fedveil.engine.fused.network.VECTOR_WIDTHS", ()),
        patch.object(Dense, "backward", twice(Dense.backward)),
    ):
        fused = Fused.build(network(), SHAPE)
        assert fused is not None
        assert disagreement(fused, network(), SHAPE, CROSS_ENTROPY) == "rows of '0' differ from ordinary autograd's"
        assert isinstance(choose(network(), torch.zeros(1, *SHAPE)), Layered)


@pytest.mark.skipif(not VECTOR_WIDTHS, reason="no compiler, or a processor without AVX2")
def test_a_fused_path_that_clips_wrongly_is_not_taken() -> None:
    def norms_for_factors(
        self: ConvolutionShape,
        norms: Tensor,
        lengths: Tensor,
        weights: Tensor,
        losses: Tensor,
        limit: Tensor,
        factors: Tensor,
        lanes: int,
    ) -> None:
        self.bend(norms, norms, factors, lanes)

    with patch.object(ConvolutionShape, "clip", norms_for_factors):
        fused = Fused.build(network(), SHAPE)
        assert fused is not None
        problem = disagreement(fused, network(), SHAPE, CROSS_ENTROPY)
        assert problem == "clipped sums of '0' differ from ordinary autograd's"
        assert isinstance(choose(network(), torch.zeros(1, *SHAPE)), Layered)


def test_a_network_at_a_bend_of_its_own_is_compared_with_what_lies_around() -> None:
    fused = Fused.build(network(), SHAPE)
    assert fused is not None
    moved, batch = nobodys(fused.layout.vector(network()), SHAPE, CROSS_ENTROPY, tokens=False)
    found = _outcome(fused, moved, batch, Limit(1.0, "layer"))
    bent = replace(found, rows=found.rows * 1.02)
    assert _difference(found, bent, fused.layout) == "rows of '0' differ from ordinary autograd's"
    assert _difference(found, bent, fused.layout, [bent, replace(found, rows=found.rows * 1.04)]) is None
    assert _difference(found, bent, fused.layout, [bent, replace(found, rows=found.rows * 1.021)]) is not None
    far = replace(found, rows=found.rows * 1.2)  # no bend explains as much, however autograd jumps around
    assert _difference(found, far, fused.layout, [far, replace(found, rows=found.rows * 2)]) is not None


@pytest.mark.parametrize("seed", [5, 21, 54])
def test_many_relus_cost_no_network_its_path(seed: int) -> None:
    """Among so many units one lies so near its bend that rounding decides (with these seeds, on some processors)."""
    torch.manual_seed(seed)
    layers = [each for _ in range(6) for each in (nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ReLU())]
    model = nn.Sequential(nn.Conv2d(3, 8, 1), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    assert isinstance(choose(model, torch.zeros(1, 3, 32, 32)), Layered)


def test_of_large_networks_one_example_a_client_is_tried() -> None:
    _, small = nobodys(torch.zeros(10), SHAPE, CROSS_ENTROPY, tokens=False)
    _, large = nobodys(torch.zeros(TRIED_ONCE_FROM + 1), SHAPE, CROSS_ENTROPY, tokens=False)
    assert small.labels.shape == (2, 3)
    assert large.labels.shape == (2, 1)
