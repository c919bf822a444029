"""What a fast path computes is compared with autograd before it is relied on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn

from fedveil.core.objectives import CROSS_ENTROPY
from fedveil.engine.autograd_check import TRIED_ONCE_FROM, disagreement, nobodys
from fedveil.engine.batched import choose
from fedveil.engine.fused import Fused
from fedveil.engine.fused.dense import Dense
from fedveil.engine.gradients import Batch, Rows
from fedveil.engine.layered import Layered
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


@pytest.mark.parametrize(("wrong", "agrees"), [({0}, True), ({0, 2}, True), ({0, 1, 2}, False), ({0, 1, 2, 3}, False)])
def test_a_single_difference_may_be_a_bend_and_several_are_a_mistake(wrong: set[int], agrees: bool) -> None:
    fused = Fused.build(network(), SHAPE)
    assert fused is not None
    right, tries = fused.rows, count()

    def rows(parameters: Tensor, batch: Batch) -> Rows:
        found = right(parameters, batch)
        return replace(found, rows=found.rows * 2) if next(tries) in wrong else found

    with patch.object(fused, "rows", rows):
        assert (disagreement(fused, network(), SHAPE, CROSS_ENTROPY) is None) == agrees


def test_every_try_has_weights_and_records_of_its_own() -> None:
    first, second = (nobodys(torch.zeros(10), SHAPE, CROSS_ENTROPY, False, number) for number in (0, 1))
    assert not torch.equal(first[0], second[0])
    assert not torch.equal(first[1].inputs, second[1].inputs)


def test_of_large_networks_one_example_a_client_is_tried() -> None:
    _, small = nobodys(torch.zeros(10), SHAPE, CROSS_ENTROPY, tokens=False)
    _, large = nobodys(torch.zeros(TRIED_ONCE_FROM + 1), SHAPE, CROSS_ENTROPY, tokens=False)
    assert small.labels.shape == (2, 3)
    assert large.labels.shape == (2, 1)
