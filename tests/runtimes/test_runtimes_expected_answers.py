"""The longest update of an honest site: never exceeded, and not far above what is sent."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from fedveil.core.types import Unit
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.method import Method
from fedveil.parts.batches import PoissonBatch
from fedveil.parts.compression import RandomK
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.optimisers import Adam, Momentum
from fedveil.runtimes.expected_answers import longest_update
from fedveil.zoo import FED_CDP, FED_SDP

SIZE, RECORDS, RATE, STEPS, BATCH = 200, 300, 0.5, 8, 10
EXAMPLE = Gaussian(clip=Clip(2.0, by="flat"), sigma=1.5)
METHOD = replace(
    FED_CDP,
    example=EXAMPLE,
    batch=PoissonBatch(BATCH),
    local=LocalTraining(steps=STEPS, rate=RATE),
)


def longest(method: Method, start: float = 1.0) -> float:
    declared = method.declare(0, RECORDS, 2, 3)
    return longest_update(method, [one for one in declared if one.place != "server"], SIZE, RATE, start)


def test_training_in_one_direction_with_full_batches_stays_below_the_longest_update() -> None:
    """The worst records there are: every batch is full, every gradient as long as the clip, all the same way."""
    generator, cap = torch.Generator().manual_seed(1), PoissonBatch(BATCH).slots(RECORDS)
    direction = torch.full((SIZE,), 2.0 / math.sqrt(SIZE), dtype=torch.float64)
    noise = 3.0 * torch.randn(500, STEPS, SIZE, generator=generator, dtype=torch.float64)
    updates = -RATE / BATCH * (cap * direction + noise).sum(dim=1)
    lengths = updates.norm(dim=1)
    assert float(lengths.max()) < longest(METHOD)
    assert longest(METHOD) < 1.5 * float(lengths.mean())


def test_rounding_of_a_large_model_does_not_refuse_an_honest_site() -> None:
    assert longest(METHOD, start=1e9) - longest(METHOD) >= STEPS * 2**-24 * 1e9


def test_a_noisy_upload_is_as_long_as_its_clip_and_its_noise() -> None:
    upload = Gaussian(clip=Clip(1.0, by="flat"), sigma=4.0, unit=Unit.CLIENT)
    expected = 1.01 * (1 + 4 * (math.sqrt(SIZE) + 10))
    assert longest(replace(METHOD, example=None, upload=upload)) == pytest.approx(expected)
    assert longest(replace(METHOD, upload=upload)) == pytest.approx(expected)  # whatever was before it


@pytest.mark.parametrize(
    "method",
    [
        FED_SDP,  # the server clips
        replace(METHOD, local=LocalTraining(steps=2, optimiser=Adam())),
        replace(METHOD, local=LocalTraining(steps=2, optimiser=Momentum())),
        replace(METHOD, local=LocalTraining(steps=2, decay=0.1)),
        replace(METHOD, compress=RandomK(0.1)),
    ],
)
def test_no_bound_is_stated_where_none_is_known(method: Method) -> None:
    assert longest(method) == math.inf
