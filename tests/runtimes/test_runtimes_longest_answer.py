"""No honest answer is longer than its bound, and what is much longer than an honest one is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from scipy.stats import chi

from fedveil.core.types import Unit
from fedveil.engine.client import Broadcast, local_steps
from fedveil.engine.gradients import Sums
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import Constant
from fedveil.method import Method
from fedveil.parts.batches import AllocatedBatch, PartitionBatch, PoissonBatch
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.optimisers import Adam, Momentum
from fedveil.parts.personal import Identity, Interpolated
from fedveil.runtimes.longest_answer import longest_noisy, longest_update

SIZE, RECORDS, LAYERS = 50, 60, 2
CLIPPED = Gaussian(clip=Clip(bound=Constant(1.5)), sigma=0.0)
METHOD = Method(batch=PoissonBatch(10), local=LocalTraining(steps=7, rate=Constant(0.5)), example=CLIPPED)


def longest(method: Method, broadcast: Broadcast) -> float:
    return longest_update(method, method.declare(0, RECORDS, LAYERS, 3), broadcast, SIZE)


def asked(scale: float = 1.0) -> Broadcast:
    return Broadcast(0, scale * torch.ones(SIZE))


@pytest.mark.parametrize("size", [1, 2, 10, 1000, 10**6])
def test_honest_noise_is_refused_less_than_once_in_a_billion_answers(size: int) -> None:
    assert chi.sf(longest_noisy(0.0, 1.0, size), size) < 1e-9
    assert longest_noisy(0.0, 1.0, size) < math.sqrt(size) * 1.01 + 9  # and hardly anything is let in beyond


@pytest.mark.parametrize(
    "method",
    [
        METHOD,
        replace(METHOD, batch=PartitionBatch(10)),
        replace(METHOD, batch=AllocatedBatch(10), local=LocalTraining(epochs=1, rate=Constant(0.5))),
        replace(METHOD, local=LocalTraining(steps=7, rate=Constant(0.5), decay=0.3)),
        replace(METHOD, local=LocalTraining(steps=7, rate=Constant(0.5), optimiser=Momentum(0.9))),
        replace(METHOD, local=LocalTraining(steps=1, rate=Constant(0.5)), personal=Identity()),
    ],
    ids=["poisson", "partition", "allocated", "decay", "momentum", "identity"],
)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_longest_sums_that_a_clip_allows_move_no_further(method: Method, sign: float) -> None:
    """All rows at the clip, in every step, in the direction in which decay pulls, too, or against it."""
    (did,) = method.declare(0, RECORDS, LAYERS, 3)
    rows = RECORDS / did.steps if did.sampling.kind == "allocated" else did.sampling.cap
    total = torch.full((1, SIZE), sign * rows * did.sensitivity / math.sqrt(SIZE))
    nothing = torch.zeros(1)
    broadcast = asked(2.0)
    moved, _ = local_steps(
        method.local,
        broadcast.parameters.unsqueeze(0),
        did.steps,
        lambda step, parameters: Sums(total.clone(), nothing, None, nothing.long()),
        rate=0.5,
        declared=did.sampling.batch,
        layers=LAYERS,
    )
    length = float((moved[0] - broadcast.parameters).norm())
    assert length <= longest(method, broadcast)
    if sign > 0:
        assert longest(method, broadcast) < 3 * length


def test_noise_adds_up_like_noise() -> None:
    noised = replace(METHOD, example=replace(CLIPPED, sigma=20.0))
    more = longest(noised, asked()) - longest(METHOD, asked())
    std = 20.0 * 1.5 * math.sqrt(7) * 0.5 / 10  # of seven draws, times rate over batch
    assert more == pytest.approx(std * (math.sqrt(SIZE) + 8), rel=2e-3)


def test_an_update_that_is_clipped_as_a_whole_has_the_length_of_its_clip_and_noise() -> None:
    upload = Gaussian(clip=Clip(bound=Constant(2.0)), sigma=3.0, unit=Unit.CLIENT)
    method = replace(METHOD, example=None, upload=upload)
    assert longest(method, asked(1e6)) == pytest.approx(2.0 + 6.0 * (math.sqrt(SIZE) + 8), rel=2e-3)


@pytest.mark.parametrize(
    "method",
    [
        replace(METHOD, example=None),
        replace(METHOD, local=LocalTraining(steps=7, optimiser=Adam())),
        replace(METHOD, local=LocalTraining(steps=7, rate=Constant(0.5), decay=3.0)),
        replace(METHOD, personal=Interpolated()),
    ],
    ids=["nothing is clipped", "adam", "decay beyond zero", "own models"],
)
def test_what_public_constants_do_not_bound_has_no_bound(method: Method) -> None:
    assert longest(method, asked()) == math.inf
